// The components of the backend lvm: what they add to the agent's DaemonSet, and nothing else.
import { describe, expect, it } from "@jest/globals";
import { parse } from "yaml";
import { LOCAL } from "../../src/contracts/csi/driver.ts";
import { parseClassParameters } from "../../src/operator/csi/requests/volume-parameters.ts";
import {
  type Container,
  hasKubectl,
  kustomize,
  kustomizeWith,
  type Manifest,
  manifestsOf,
  podSpecOf,
} from "../harness/kustomize.ts";

const SOCKET = "/run/tidemark/lvmd.sock";
const describeWithKubectl = hasKubectl() ? describe : describe.skip;

function containerOf(manifests: readonly Manifest[], name: string): Container | undefined {
  return podSpecOf(manifests, "agent").containers.find((container) => container.name === name);
}

/** "VOLUME at PATH" -> the node's directory. */
function nodeDirectories(manifests: readonly Manifest[], name: string): Record<string, string | undefined> {
  const { volumes = [] } = podSpecOf(manifests, "agent");
  const pathOf = (volume: string): string | undefined =>
    (volumes.find((one) => one.name === volume)?.["hostPath"] as { path?: string } | undefined)?.path;
  const mounts = containerOf(manifests, name)?.volumeMounts ?? [];
  return Object.fromEntries(mounts.map(({ name: volume, mountPath }) => [mountPath, pathOf(volume)]));
}

const names = (manifests: readonly Manifest[]) => manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`);

describeWithKubectl("the lvm overlay", () => {
  const manifests = hasKubectl() ? manifestsOf(kustomize("overlays/lvm")) : [];
  const base = hasKubectl() ? manifestsOf(kustomize("base")) : [];

  it("is the base, lvmd's configuration and a class", () => {
    const added = names(manifests).filter((name) => !names(base).includes(name));
    expect(added.sort()).toEqual(["ConfigMap lvmd", "StorageClass tidemark-lvm"]);
    expect(names(base).filter((name) => !names(manifests).includes(name))).toEqual([]);
  });

  it("leaves the agent as it is, but for the socket", () => {
    const [before, now] = [containerOf(base, "agent"), containerOf(manifests, "agent")];
    expect(now?.args).toEqual([...(before?.args ?? []), `--lvmd-socket=${SOCKET}`]);
    expect(nodeDirectories(manifests, "agent")).toEqual({
      ...nodeDirectories(base, "agent"),
      "/run/tidemark": "/run/tidemark",
    });
    expect({ ...now, args: [], volumeMounts: [] }).toEqual({ ...before, args: [], volumeMounts: [] });
  });

  it("has lvmd in the agent's pod, of the same image, where the node has what it needs at the same paths", () => {
    const lvmd = containerOf(manifests, "lvmd");
    expect(lvmd?.image).toBe(containerOf(manifests, "agent")?.image);
    expect(lvmd?.args).toEqual(["lvmd", "--config=/etc/tidemark/lvmd.yaml"]);
    expect(lvmd?.securityContext).toMatchObject({ privileged: true, readOnlyRootFilesystem: true });
    expect(nodeDirectories(manifests, "lvmd")).toEqual({
      "/etc/tidemark": undefined,
      "/run/tidemark": "/run/tidemark",
      "/var/lib/tidemark/lvmd": "/var/lib/tidemark/lvmd",
      "/etc/lvm": "/etc/lvm",
      "/dev": "/dev",
    });
  });

  it("shares the node's processes, which the API server refuses together with a namespace of the pod's own", () => {
    const { hostPID, shareProcessNamespace } = podSpecOf(manifests, "agent");
    expect([hostPID, shareProcessNamespace]).toEqual([true, undefined]);
  });

  it("has lvmd run LVM in the node's namespaces, and meet the agent on its socket", () => {
    const configMap = manifests.find(({ kind }) => kind === "ConfigMap") as Manifest & { data: Record<string, string> };
    const config = parse(configMap.data["lvmd.yaml"] ?? "") as Record<string, unknown>;
    expect(config["socket-name"]).toBe(SOCKET);
    expect(config["lvm-command-prefix"]).toEqual([
      "/usr/bin/nsenter",
      "-m",
      "-u",
      "-i",
      "-n",
      "-p",
      "-t",
      "1",
      "/sbin/lvm",
    ]);
    expect(config["device-classes"]).toEqual([expect.objectContaining({ default: true })]);
  });

  it("has a class whose parameters are understood", () => {
    const storageClass = manifests.find(({ kind }) => kind === "StorageClass") as Manifest & {
      parameters: Record<string, string>;
    };
    const parameters = parseClassParameters(storageClass.parameters, LOCAL);
    expect(parameters).toMatchObject({ backend: "lvm", fsType: "btrfs", deviceClass: undefined });
  });
});

describeWithKubectl("the component lvm-host", () => {
  const manifests = hasKubectl() ? manifestsOf(kustomizeWith("overlays/minimal", {}, ["components/lvm-host"])) : [];

  it("only shows the agent the socket of a lvmd on the node", () => {
    expect(podSpecOf(manifests, "agent").containers).toHaveLength(1);
    expect(podSpecOf(manifests, "agent")["hostPID"]).toBeUndefined();
    expect(containerOf(manifests, "agent")?.args?.at(-1)).toBe(`--lvmd-socket=${SOCKET}`);
    expect(nodeDirectories(manifests, "agent")).toMatchObject({ "/run/tidemark": "/run/tidemark" });
    expect(names(manifests).filter((name) => name.startsWith("ConfigMap"))).toEqual([]);
  });

  it.each([
    ["overlays/minimal", ["components/lvm", "components/lvm-host"]],
    ["overlays/minimal", ["components/lvm-host", "components/lvm"]],
    ["overlays/lvm", ["components/lvm-host"]],
    ["overlays/lvm", ["components/lvm"]],
  ])("does not build over another lvmd, nor does that: %s with %j", (overlay, components) => {
    expect(() => kustomizeWith(overlay, {}, components)).toThrow(/already registered id: OnlyOneOf.*lvm-and-lvm-host/);
  });
});
