"Say in one line when a port cannot be used."
import socket
import sys

port = int(sys.argv[1])
with socket.socket() as s:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        s.bind(("127.0.0.1", port))
    except OSError as error:
        sys.exit(f"port {port} cannot be used ({error.strerror}); choose another one: make lab PORT={port + 1}")
