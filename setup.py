"Package metadata, read from settings.ini (the one configuration that nbdev also reads)."
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

parser = ConfigParser(delimiters=["="])
parser.read(Path(__file__).parent / "settings.ini", encoding="utf-8")
cfg = parser["DEFAULT"]
names = ("dev", "docs", "fast", "hub", "interop", "bench", "plot", "onnx")
extras = {name: cfg[f"{name}_requirements"].split() for name in names}
for name in ("dev", "bench"):
    extras[name] += extras["interop"] + extras["plot"] + extras["onnx"]

# What the first page links to lies in the repository, not on the package's page.
raw = cfg["git_url"].replace("github.com", "raw.githubusercontent.com")
readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
readme = readme.replace("](nbs/first_look.gif", f"]({raw}/HEAD/nbs/first_look.gif")
readme = readme.replace("](nbs/", f"]({cfg['git_url']}/blob/HEAD/nbs/")

setup(
    name=cfg["lib_name"],
    version=cfg["version"],
    description=cfg["description"],
    long_description=readme,
    long_description_content_type="text/markdown",
    author=cfg["author"],
    author_email=cfg["author_email"],
    license_expression=cfg["license"],
    license_files=["LICENSE"],
    url=cfg["git_url"],
    keywords=cfg["keywords"].split(),
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Education",
        "Intended Audience :: Developers",
        "Natural Language :: English",
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
    packages=find_packages(include=["transformer_nbdev*"]),
    package_data={"transformer_nbdev": ["py.typed", "glass.html"]},
    python_requires=f">={cfg['min_python']}",
    install_requires=cfg["requirements"].split(),
    extras_require=extras,
    entry_points={"console_scripts": cfg["console_scripts"].split()},
    zip_safe=False,
)
