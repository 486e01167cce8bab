// Another driver's sidecars and the policy-engine, played for tests of ordinary claims: what they write, and nothing else.

import { volumeHandleOf } from "../../../src/contracts/identity.ts";
import { FILESYSTEMS } from "../../../src/contracts/kinds/filesystem.ts";
import { CLUSTER_VOLUME_POLICIES, VOLUME_POLICIES } from "../../../src/contracts/kinds/volume-policy.ts";
import {
  PERSISTENT_VOLUME_CLAIMS,
  PERSISTENT_VOLUMES,
  STORAGE_CLASSES,
  VOLUME_ATTACHMENTS,
} from "../../../src/contracts/kubernetes/resources.ts";
import { API_VERSION, FIELD_MANAGERS } from "../../../src/contracts/names.ts";
import type { KubeClient } from "../../../src/platform/kube/client/client.ts";
import { buildClaim } from "../../builders/claim.ts";
import { aClusterPolicy, aVolumePolicy } from "../../builders/policy.ts";

export const DRIVER = "block.example.com";
export const NAMESPACE = "default";
const CLASS = "fast";
const FORCE = { fieldManager: "test", force: true };

export interface ForeignDriver {
  createClass(): Promise<void>;
  /** 10Gi, bound and attached to node-9; returns the handle that it would have as a filesystem of ours. */
  provide(name: string, labels?: Record<string, string>): Promise<string>;
  /** On the claim's status. */
  says(name: string, status: object): Promise<void>;
  /** The engine's target; returns what names it. */
  want(name: string, size: string, from: string): Promise<string>;
  /** A policy of the namespace for the claims labelled so; undefined: it says nothing of the backend. */
  policy(opted: string, claimBackend: "Enabled" | "Disabled" | undefined): Promise<void>;
  clusterPolicy(claimBackend: "Enabled" | "Disabled"): Promise<void>;
}

export function foreignDriver(client: KubeClient): ForeignDriver {
  const says = async (name: string, status: object): Promise<void> => {
    const claim = { namespace: NAMESPACE, name };
    await client.mergePatch("test/claim-status", PERSISTENT_VOLUME_CLAIMS, claim, { status }, "status");
  };
  return {
    createClass: async () => {
      await client.create("test/class", STORAGE_CLASSES, {
        apiVersion: "storage.k8s.io/v1",
        kind: "StorageClass",
        metadata: { name: CLASS },
        provisioner: DRIVER,
        allowVolumeExpansion: true,
      });
    },
    provide: async (name, labels = { opted: "in" }) => {
      const claim = buildClaim({ name, storageClassName: CLASS, spec: { volumeName: `pv-${name}` } });
      const labelled = { ...claim, metadata: { ...claim.metadata, labels } };
      const { metadata } = await client.create("test/claim", PERSISTENT_VOLUME_CLAIMS, labelled);
      const uid = metadata.uid ?? "";
      await client.create("test/volume", PERSISTENT_VOLUMES, {
        apiVersion: "v1",
        kind: "PersistentVolume",
        metadata: { name: `pv-${name}` },
        spec: {
          capacity: { storage: "10Gi" },
          accessModes: ["ReadWriteOnce"],
          claimRef: { namespace: NAMESPACE, name, uid },
          csi: { driver: DRIVER, volumeHandle: `vol-${name}` },
        },
      });
      await attach(client, name);
      await says(name, { phase: "Bound", capacity: { storage: "10Gi" } });
      return volumeHandleOf(uid);
    },
    says,
    want: async (name, size, from) => {
      const decidedAt = new Date().toISOString();
      const target = { size, from, epoch: 1, decidedAt };
      await client.apply(
        "test/target",
        FILESYSTEMS,
        { apiVersion: API_VERSION, kind: "Filesystem", metadata: { namespace: NAMESPACE, name }, spec: { target } },
        { fieldManager: FIELD_MANAGERS.policyEngine, force: true },
      );
      return decidedAt;
    },
    policy: async (opted, claimBackend) => {
      const { kind, spec } = aVolumePolicy({
        selector: { matchLabels: { opted } },
        ...(claimBackend === undefined ? {} : { claimBackend }),
      });
      const metadata = { namespace: NAMESPACE, name: `claims-${opted}` };
      await client.apply("test/policy", VOLUME_POLICIES, { apiVersion: API_VERSION, kind, metadata, spec }, FORCE);
    },
    clusterPolicy: async (claimBackend) => {
      const { kind, spec } = aClusterPolicy({ claimBackend, selector: { matchLabels: { team: "any" } } });
      const policy = { apiVersion: API_VERSION, kind, metadata: { name: "claims" }, spec };
      await client.apply("test/cluster-policy", CLUSTER_VOLUME_POLICIES, policy, FORCE);
    },
  };
}

async function attach(client: KubeClient, name: string): Promise<void> {
  const attachment = { name: `to-${name}` };
  await client.create("test/attachment", VOLUME_ATTACHMENTS, {
    apiVersion: "storage.k8s.io/v1",
    kind: "VolumeAttachment",
    metadata: attachment,
    spec: { attacher: DRIVER, nodeName: "node-9", source: { persistentVolumeName: `pv-${name}` } },
  });
  await client.mergePatch("test/attached", VOLUME_ATTACHMENTS, attachment, { status: { attached: true } }, "status");
}
