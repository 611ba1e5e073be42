import json
import subprocess
import sys

import pytest

from rlcomp.arguments import Unbuilt
from rlcomp.episodes.host import Start
from rlcomp.episodes.processes import ProcessHosts
from rlcomp.episodes.remote import from_json, to_json
from rlcomp.errors import ConfigError
from rlcomp.interfaces.environment import Turn
from rlcomp.interfaces.task import Example


def test_descriptions_come_back_from_json():
    inner = Unbuilt("a.Corpus", {"letters": "bc"})
    whole = {"tools": {"search": Unbuilt("a.BM25", {"corpus": inner, "k": [1, 2]})}, "price": None}

    assert from_json(json.loads(json.dumps(to_json(whole)))) == whole
    # A mapping of the user's own that has other names is a mapping.
    assert from_json({"_target_": "a.B"}) == {"_target_": "a.B"}


def tools(**changed):
    add = Unbuilt("components.tool.Calculator", {})
    return Unbuilt("components.environment.tools.Tools", {"tools": {"add": add}} | changed)


def test_tools_are_made_in_other_processes():
    hosts = ProcessHosts(num_workers=1)
    try:
        host = hosts.host(tools())
        assert host.stops == ("</add>", "</answer>")
        host.open([Start(Example("?", "3", ""), 0)])
        found = host.step({0: "<add>1+2</add>"})
        assert found[0] == Turn(observation="<information>3", closing="</information>")
        assert host.facts()[0]["calls_add"] == 1.0
    finally:
        hosts.close()


def test_an_object_within_a_description_cannot_be_sent():
    with pytest.raises(ConfigError, match=r"has an argument that is not JSON"):
        ProcessHosts(num_workers=1).host(tools(protocol=object()))


def test_a_worker_of_environments_imports_no_torch():
    code = "import sys, rlcomp.episodes.remote; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
