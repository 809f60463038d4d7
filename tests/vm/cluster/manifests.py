#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# manifests.py SCHEMAS FILE.yaml...: whether each object in these has only members that Kubernetes has, of
# the types that it has. SCHEMAS is the folder of examples by which Kubernetes tests its API's stability:
# for each kind a JSON object with every member set, GROUP.VERSION.KIND.json. What it cannot tell: members
# that are missing, words of an enumeration, and what a text in CEL means.

import json
import os
import sys

import yaml


class Loader(yaml.SafeLoader):
    """As PyYAML's, which takes a member that is there twice."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        if len(keys) != len(set(keys)):
            raise yaml.constructor.ConstructorError(None, None, "a member twice", node.start_mark)
        return super().construct_mapping(node, deep)


def example(schemas, found):
    group, _, version = found.get("apiVersion", "").rpartition("/")
    path = os.path.join(schemas, f"{group or 'core'}.{version}.{found.get('kind', '')}.json")
    if not os.path.exists(path):
        yield f"no such kind: {found.get('apiVersion')} {found.get('kind')}"
        return
    with open(path, encoding="utf-8") as file:
        yield from compare(found, json.load(file), "")


def compare(found, known, where):
    if type(found) is not type(known):
        yield f"{where}: {type(found).__name__}, not {type(known).__name__}"
    elif isinstance(found, list):
        for number, item in enumerate(found):
            yield from compare(item, known[0], f"{where}[{number}]")
    elif isinstance(found, dict):
        # A map has one example, whose key is named after the map.
        name = where.rpartition(".")[2] + "Key"
        for key, value in found.items():
            if name not in known and key not in known:
                yield f"{where}.{key}: no such member"
            else:
                yield from compare(value, known.get(name, known.get(key)), f"{where}.{key}")


def main():
    wrong = 0
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            objects = list(yaml.load_all(file, Loader))
        if not objects:
            wrong += 1
            print(f"{path}: empty")
        for found in objects:
            for text in example(sys.argv[1], found):
                wrong += 1
                print(f"{path}: {text}")
    return 1 if wrong else 0


sys.exit(main())
