#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
#
# cri.py SOCKET POD.json CONTAINER.json: does what a kubelet does for a pod of one container: a sandbox,
# a container in it, from these two requests, which are the CRI's messages as JSON and crictl's files
# too; waits for the container's end and removes both. Prints what it wrote, each stream on its own, and
# ends with its code. prepare.sh compiles the messages from Kubernetes' own api.proto.

import json
import os
import sys

import grpc
from google.protobuf import json_format

import api_pb2 as cri
from api_pb2_grpc import RuntimeServiceStub


def read(path, message):
    # A member that the message does not have is an error.
    with open(path, encoding="utf-8") as file:
        return json_format.ParseDict(json.load(file), message)


def show(log):
    # A line is a time, the stream, F or P for a whole line or a part of one, and the text.
    with open(log, encoding="utf-8", errors="replace") as file:
        for line in file:
            _, stream, part, text = line.rstrip("\n").split(" ", 3)
            print(text, end="\n" if part == "F" else "", file=sys.stderr if stream == "stderr" else sys.stdout)


def wait(runtime, container, events):
    # Its end is an event. Where it has ended before, the status says so at once.
    while True:
        status = runtime.ContainerStatus(cri.ContainerStatusRequest(container_id=container)).status
        if status.state == cri.CONTAINER_EXITED:
            return status.exit_code
        for event in events:
            if event.container_id == container and event.container_event_type == cri.CONTAINER_STOPPED_EVENT:
                break
        else:
            sys.exit("cri.py: no more events")


def main():
    socket, pod_file, container_file = sys.argv[1:]
    pod = read(pod_file, cri.PodSandboxConfig())
    config = read(container_file, cri.ContainerConfig())
    # containerd would add to one that is there.
    log = os.path.join(pod.log_directory, config.log_path)
    os.makedirs(pod.log_directory, exist_ok=True)
    if os.path.exists(log):
        os.remove(log)
    runtime = RuntimeServiceStub(grpc.insecure_channel("unix:" + socket))
    events = runtime.GetContainerEvents(cri.GetEventsRequest())
    sandbox = runtime.RunPodSandbox(cri.RunPodSandboxRequest(config=pod)).pod_sandbox_id
    try:
        container = runtime.CreateContainer(
            cri.CreateContainerRequest(pod_sandbox_id=sandbox, config=config, sandbox_config=pod)
        ).container_id
        runtime.StartContainer(cri.StartContainerRequest(container_id=container))
        code = wait(runtime, container, events)
        show(log)
    finally:
        runtime.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox))
        runtime.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))
    return code


try:
    sys.exit(main())
except grpc.RpcError as error:
    sys.exit("cri.py: " + error.details())
