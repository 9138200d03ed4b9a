"A model goes to the hub and comes back by its name: a small hub on this machine stands in for the large one."
import base64
import hashlib
import json
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch
from helpers import environment

from transformer_nbdev.convert.folders import model_card
from transformer_nbdev.data import Tokenizer
from transformer_nbdev.tools.hub import model_folder, push_folder
from transformer_nbdev.transformer import Transformer, TransformerConfig
from transformer_nbdev.translator import Translator


class StubHub(BaseHTTPRequestHandler):
    "As much of the hub's protocol as one model that goes up and comes down needs; files live in `repos`."

    repos: dict[str, dict[str, bytes]]
    sha = "0123456789abcdef0123456789abcdef01234567"

    def answer(self, content: bytes | dict, status: int = 200, **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
            content = self.repos.get(match[1], {}).get(match[2])
            if content is None:
                return self.answer({}, 404, X_Error_Code="EntryNotFound")
            tag = hashlib.sha256(content).hexdigest()
            return self.answer(content, ETag=f'"{tag}"', X_Repo_Commit=self.sha)
        match = re.fullmatch(r"/api/models/([^/]+/[^/]+)(/revision/[^/]+|/tree/[^/]+)?", path)
        if not match or match[1] not in self.repos:
            return self.answer({"error": "not here"}, 404, X_Error_Code="RepoNotFound")
        files = self.repos[match[1]]
        if match[2] and match[2].startswith("/tree"):
            tree = [
                {"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
                for name, content in files.items()
            ]
            return self.answer(json.dumps(tree).encode(), Content_Type="application/json")
        self.answer({"id": match[1], "sha": self.sha, "siblings": [{"rfilename": name} for name in files]})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Authorization") != "Bearer hf_right":
            return self.answer({"error": "who are you?"}, 401)
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            self.repos.setdefault(name, {})
            return self.answer({"url": f"http://{self.headers['Host']}/{name}"})
        if self.path == "/api/validate-yaml":  # of the card
            return self.answer({"errors": [], "warnings": []})
        name = re.match(r"/api/models/([^/]+/[^/]+)/", self.path)[1]
        if "/preupload/" in self.path:
            files = json.loads(body)["files"]
            modes = [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False, "oid": None} for f in files]
            return self.answer({"files": modes})
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                self.repos[name][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        self.answer({"commitUrl": f"http://{self.headers['Host']}/{name}/commit/{self.sha}", "commitOid": self.sha})

    def log_message(self, *arguments) -> None:
        pass


@pytest.fixture
def hub(tmp_path):
    "Address and repositories of a hub; environment of a process that uses it."
    handler = type("Hub", (StubHub,), {"repos": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    env = {**environment(), "HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "cache"), "HF_TOKEN": "hf_right"}
    env |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    env = {k: v for k, v in env.items() if "proxy" not in k.lower() and k != "HF_HUB_OFFLINE"}
    yield handler.repos, env
    server.shutdown()


def translator() -> Translator:
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=300, d_model=32, n_heads=2, n_encoder_layers=1, n_decoder_layers=1, d_ff=64)
    return Translator(Transformer(config).eval(), Tokenizer.train(["one two three"], 300))


def python(program: str, env: dict) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=100)


def test_what_is_put_on_the_hub_comes_back_by_its_name(hub, tmp_path):
    repos, env = hub
    ours = translator()
    ours.save_pretrained(tmp_path / "model")
    put = python(
        "from transformer_nbdev import Translator\n"
        f"ours = Translator.from_pretrained({str(tmp_path / 'model')!r})\n"
        "print(ours.push_to_hub('somebody/numbers', ('en', 'de'), 'number words', 'apache-2.0'))\n", env,
    )
    assert put.returncode == 0, put.stderr
    assert put.stdout.strip() == f"{env['HF_ENDPOINT']}/somebody/numbers"
    files = repos["somebody/numbers"]
    assert {"README.md", "config.json", "model.safetensors", "tokenizer.json"} <= files.keys()
    assert files["model.safetensors"] == (tmp_path / "model" / "model.safetensors").read_bytes()
    assert "license: apache-2.0" in files["README.md"].decode()

    fetch = (
        "from transformer_nbdev import Translator\n"
        "print(Translator.from_pretrained('somebody/numbers').translate(['one two'], max_new_tokens=5))\n"
    )
    online = python(fetch, env)
    assert online.stdout.strip() == str(ours.translate(["one two"], max_new_tokens=5)), online.stderr
    offline = python(fetch, {**env, "HF_HUB_OFFLINE": "1"})  # from the cache
    assert offline.stdout == online.stdout, offline.stderr
    command = [sys.executable, "-m", "transformer_nbdev", "translate", "--model", "somebody/numbers"]
    run = subprocess.run(command, input="one two\n", env=env, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0 and len(run.stdout.splitlines()) == 1, run.stderr


@pytest.mark.parametrize("change, name, words", [
    ({}, "somebody/unknown", "RepositoryNotFoundError"),
    ({"HF_HUB_OFFLINE": "1"}, "somebody/numbers", "try again when online"),
    ({"HF_ENDPOINT": "http://127.0.0.1:9"}, "somebody/numbers", "try again when online"),
])
def test_a_model_that_cannot_be_fetched_is_one_sentence(hub, change, name, words):
    repos, env = hub
    repos["somebody/numbers"] = {}
    program = f"from transformer_nbdev import Translator; Translator.from_pretrained({name!r})"
    last = python(program, {**env, **change}).stderr.strip().splitlines()[-1]
    assert last.startswith(f"OSError: no folder {name}, and could not fetch it") and words in last


def test_without_the_right_token_nothing_is_put(hub, tmp_path):
    repos, env = hub
    (tmp_path / "config.json").write_text("{}")
    program = f"from transformer_nbdev.tools.hub import push_folder; push_folder({str(tmp_path)!r}, 'somebody/numbers')"
    last = python(program, {**env, "HF_TOKEN": "hf_wrong"}).stderr.strip().splitlines()[-1]
    assert last.startswith("OSError: could not put somebody/numbers on the Hugging Face") and "hf auth login" in last
    assert not repos


@pytest.mark.parametrize("name", ["my_run", "./a/b", "a/b/c", "../a", "/no/such"])
def test_what_is_neither_folder_nor_name_asks_nobody(name, tmp_path):
    with pytest.raises(ValueError, match="no folder"):
        model_folder(name)
    with pytest.raises(ValueError, match="organisation/model"):
        push_folder(tmp_path, name)


def test_a_card_says_what_one_wants_to_know():
    from huggingface_hub import ModelCard

    scores = {"BLEU": {"score": 36.94, "signature": "nrefs:1|case:mixed|tok:13a"}}
    card = model_card(translator(), "somebody/numbers", ("en", "de"), "number words", "apache-2.0", scores)
    header = ModelCard(card).data
    assert (header.language, header.license, header.pipeline_tag) == (["en", "de"], "apache-2.0", "translation")
    for words in ("en → de", "number words", r"36.9 (`nrefs:1\|case:mixed\|tok:13a`)", "--model somebody/numbers"):
        assert words in card
    assert "not stated" in model_card(translator(), "somebody/numbers", ("en", "de"))
