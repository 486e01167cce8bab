// A fleet of volumes as the API server has it, and what their filesystems show: most at rest, as in bench/decide, each team with its policy.
import type { Filesystem } from "../../src/contracts/kinds/filesystem.ts";
import type { FilesystemLayout } from "../../src/contracts/kinds/filesystem-layout.ts";
import type { VolumePolicy } from "../../src/contracts/kinds/volume-policy.ts";
import { API_VERSION } from "../../src/contracts/names.ts";
import { GIB } from "../../src/contracts/quantities/quantity.ts";
import { buildClaim } from "../../test/builders/claim.ts";
import { type EngineCaches, engineCaches } from "../../test/fakes/engine-caches.ts";
import { makeTeams, policyObjectOf } from "../decide/fleet.ts";

const TEAMS = 1000;
const INODES = 1_000_000;

export function claimOf(index: number): { readonly namespace: string; readonly name: string } {
  return { namespace: `team-${index % TEAMS}`, name: `data-${index}` };
}

export function figuresOf(index: number) {
  const capacityBytes = sizeGibOf(index) * GIB;
  const usedBytes = Math.round(capacityBytes * (0.4 + (index % 37) / 100)); // 40% to 76%: no rule fires
  return {
    ...{ capacity_bytes: capacityBytes, available_bytes: capacityBytes - usedBytes },
    ...{ inodes: INODES, inodes_used: INODES / 10 + (index % 1000) },
  };
}

function sizeGibOf(index: number): number {
  return 16 + (index % 160);
}

/** `policies` of the teams' are there; the others' volumes have none. */
export function makeCaches(volumes: number, policies: number): EngineCaches {
  const caches = engineCaches();
  for (const policy of makePolicies(policies)) caches.policies.put(policy);
  for (let index = 0; index < volumes; index += 1) {
    const { claim, filesystem, layout } = objectsOf(index);
    caches.claims.put(claim);
    caches.filesystems.put(filesystem);
    caches.layouts.put(layout);
  }
  return caches;
}

export function makePolicies(count: number): VolumePolicy[] {
  return makeTeams(count).map(policyObjectOf);
}

function objectsOf(index: number) {
  const { namespace, name } = claimOf(index);
  const uid = `00000000-0000-4000-8000-${String(index).padStart(12, "0")}`;
  const size = `${sizeGibOf(index)}Gi`;
  const built = buildClaim({ namespace, name, request: size });
  const claim = {
    ...built,
    metadata: {
      ...built.metadata,
      uid,
      creationTimestamp: "2026-01-01T00:00:00Z",
      labels: { app: `app-${index % 500}`, tier: index % 2 === 0 ? "cache" : "web" },
    },
  };
  const handle = `fs-${uid}`;
  const filesystem: Filesystem = {
    apiVersion: API_VERSION,
    kind: "Filesystem",
    metadata: { namespace, name, uid: `fs-uid-${index}` },
    spec: {},
    status: { volumeHandle: handle },
  };
  const layout: FilesystemLayout = {
    apiVersion: API_VERSION,
    kind: "FilesystemLayout",
    metadata: { name: handle, uid: `layout-uid-${index}`, generation: 1 },
    spec: {
      claimRef: { namespace, name, uid },
      volumeUID: uid,
      backend: "loop",
      fsType: "btrfs",
      nodeName: `node-${index % 1000}`,
      members: [{ name: "member-0", size, source: { loop: { file: "member-0.img" } } }],
    },
    status: { mounted: true, members: [{ name: "member-0", size, state: "Present" }] },
  };
  return { claim, filesystem, layout };
}
