import { describe, expect, it } from "@jest/globals";
import type { PersistentVolumeClaim, Pod } from "../../src/contracts/kubernetes/resources.ts";
import { GIB } from "../../src/contracts/quantities/quantity.ts";
import { buildClaim } from "../builders/claim.ts";
import { overCommits } from "../e2e/over-commits.ts";

const ROOM = new Map([
  ["a", 8 * GIB],
  ["b", 4 * GIB],
]);

function claimOf(name: string, storage?: string): PersistentVolumeClaim {
  const claim = buildClaim({ name, namespace: "apps", request: storage ?? "" });
  return storage === undefined ? { ...claim, spec: { ...claim.spec, resources: {} } } : claim;
}

function podOf(name: string, nodeName: string | undefined, ...claimNames: string[]): Pod {
  const volumes = claimNames.map((claimName) => ({ name: claimName, persistentVolumeClaim: { claimName } }));
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace: "apps", name },
    spec: { nodeName, containers: [{ name: "shell" }], volumes },
  };
}

const CLAIMS = ["1", "2", "3"].map((name) => claimOf(name, "4Gi"));

describe("over-commits, recounted from pods and claims", () => {
  it("are none where each node has what the claims of its pods ask for, to the last byte", () => {
    const pods = [podOf("p", "a", "1", "2"), podOf("q", "b", "3")];
    expect(overCommits(pods, CLAIMS, ROOM)).toEqual([]);
  });

  it("are the nodes whose pods ask for more, and those that had nothing to give", () => {
    const pods = [podOf("p", "b", "1"), podOf("q", "b", "2"), podOf("r", "c", "3")];
    expect(overCommits(pods, CLAIMS, ROOM)).toEqual([
      { node: "b", roomBytes: 4 * GIB, takenBytes: 8 * GIB },
      { node: "c", roomBytes: 0, takenBytes: 4 * GIB },
    ]);
  });

  it("count no pod without a node, and a claim that two pods of a node share once", () => {
    const pods = [podOf("p", "b", "1"), podOf("q", "b", "1"), podOf("r", undefined, "2"), podOf("s", "", "3")];
    expect(overCommits(pods, CLAIMS, ROOM)).toEqual([]);
  });

  it("count the claims of ephemeral volumes", () => {
    const pod = podOf("p", "b", "1");
    const scratch = { name: "scratch", ephemeral: {} };
    const pods = [{ ...pod, spec: { ...pod.spec, volumes: [...(pod.spec.volumes ?? []), scratch] } }];
    expect(overCommits(pods, [...CLAIMS, claimOf("p-scratch", "1Mi")], ROOM)).toHaveLength(1);
  });

  it("cannot be told where a claim is not there, or asks for nothing", () => {
    expect(() => overCommits([podOf("p", "a", "gone")], CLAIMS, ROOM)).toThrow("apps/gone");
    expect(() => overCommits([podOf("p", "a", "1")], [claimOf("1")], ROOM)).toThrow("apps/1");
  });
});
