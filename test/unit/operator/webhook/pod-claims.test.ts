// Whose claims a pod has, from caches that may be behind, and what becomes of a pod when that cannot be found out.
import { describe, expect, it } from "@jest/globals";
import { type KubeObject, objectKey } from "../../../../src/contracts/kubernetes/object.ts";
import type {
  PersistentVolume,
  PersistentVolumeClaim,
  StorageClass,
} from "../../../../src/contracts/kubernetes/resources.ts";
import { type ClaimSources, claimsOfPod } from "../../../../src/operator/webhook/pod-claims.ts";
import { admitPod } from "../../../../src/operator/webhook/pod-webhook.ts";
import { createStore } from "../../../../src/platform/kube/cache/store.ts";
import type { KubeClient } from "../../../../src/platform/kube/client/client.ts";
import { KubeError } from "../../../../src/platform/kube/kube-error.ts";
import { buildClaim } from "../../../builders/claim.ts";
import { buildPod, buildReview, ephemeral, ofClaim } from "../../../builders/pod-review.ts";
import { createRecordingLog } from "../../../fakes/recording-log.ts";

const classOf = (name: string, provisioner: string, fields: Partial<StorageClass["metadata"]> = {}): StorageClass => ({
  apiVersion: "storage.k8s.io/v1",
  kind: "StorageClass",
  metadata: { name, ...fields },
  provisioner,
});
const volumeOf = (name: string, driver: string | undefined, storageClassName?: string): PersistentVolume => ({
  apiVersion: "v1",
  kind: "PersistentVolume",
  metadata: { name },
  spec: { storageClassName, ...(driver && { csi: { driver, volumeHandle: "1" } }) },
});
const claim = (name: string, storageClassName: string | undefined, spec: object = {}): PersistentVolumeClaim =>
  buildClaim({ name, namespace: "shop", request: "1Gi", spec: { storageClassName, ...spec } });
const OURS = classOf("fast", "local.tidemark.dev");
const GIB = 1024 ** 3;

interface World {
  readonly cached?: readonly KubeObject[];
  /** What only the API server has. */
  readonly live?: readonly KubeObject[];
}

function sourcesOf({ cached = [], live = [] }: World) {
  const asked: string[] = [];
  const storeOf = <T extends KubeObject>(kind: string) => {
    const store = createStore<T>({});
    for (const object of cached) if (object.kind === kind) store.put(object as T);
    return { store };
  };
  const get = (async (resource: { kind: string }, name: { name: string; namespace?: string }) => {
    asked.push(`${resource.kind} ${objectKey(name)}`);
    return [...cached, ...live].find(
      (one) => one.kind === resource.kind && objectKey(one.metadata) === objectKey(name),
    );
  }) as KubeClient["get"];
  const sources: ClaimSources = {
    client: { get },
    claims: storeOf("PersistentVolumeClaim"),
    storageClasses: storeOf("StorageClass"),
    persistentVolumes: storeOf("PersistentVolume"),
  };
  return { sources, asked };
}

const oneClaim = (one: PersistentVolumeClaim): PersistentVolumeClaim[] => [one];

describe("the claims of a pod", () => {
  it("are asked for from the API server where the caches do not have them, and their classes too", async () => {
    const { sources, asked } = sourcesOf({ live: [claim("data", "fast"), OURS] });
    expect(await claimsOfPod(sources, "shop", [ofClaim("data")])).toEqual({
      ours: [{ className: "fast", bytes: GIB }],
      missing: [],
    });
    expect(asked).toEqual(["PersistentVolumeClaim shop/data", "StorageClass fast"]);
  });

  it("cost no request where the caches have them, however often the pod names them", async () => {
    const { sources, asked } = sourcesOf({ cached: [claim("data", "fast"), OURS] });
    const { ours } = await claimsOfPod(sources, "shop", [ofClaim("data"), ofClaim("data"), { name: "token" }]);
    expect(ours).toEqual([{ className: "fast", bytes: GIB }]);
    expect(asked).toEqual([]);
  });

  it.each<[string, World, readonly PersistentVolumeClaim[], { className: string; bytes: number }[]]>([
    [
      "bound to a volume of ours, whatever its class is now",
      { cached: [volumeOf("pv", "span.tidemark.dev", "old")] },
      oneClaim(claim("data", "gone", { volumeName: "pv" })),
      [{ className: "old", bytes: 0 }],
    ],
    [
      "bound to another's volume, with a class of ours",
      { cached: [volumeOf("pv", "ebs.csi.aws.com"), OURS] },
      oneClaim(claim("data", "fast", { volumeName: "pv" })),
      [],
    ],
    [
      "bound to a volume of no driver",
      { cached: [volumeOf("pv", undefined), OURS] },
      oneClaim(claim("data", "fast", { volumeName: "pv" })),
      [],
    ],
    [
      "bound to a volume that the cache does not have yet",
      { cached: [OURS] },
      oneClaim(claim("data", "fast", { volumeName: "pv" })),
      [{ className: "fast", bytes: 0 }],
    ],
    [
      "of no class at all",
      {
        cached: [
          classOf("fast", "local.tidemark.dev", {
            annotations: { "storageclass.kubernetes.io/is-default-class": "true" },
          }),
        ],
      },
      oneClaim(claim("data", "")),
      [],
    ],
    ["of another's class", { cached: [classOf("gp3", "ebs.csi.aws.com")] }, oneClaim(claim("data", "gp3")), []],
    [
      "with a request that is none",
      { cached: [OURS] },
      oneClaim(claim("data", "fast", { resources: { requests: { storage: "lots" } } })),
      [{ className: "fast", bytes: 0 }],
    ],
    [
      "of a span",
      { cached: [classOf("wide", "span.tidemark.dev")] },
      oneClaim(claim("data", "wide")),
      [{ className: "wide", bytes: GIB }],
    ],
  ])("are ours or not: %s", async (_name, { cached = [] }, live, ours) => {
    const { sources } = sourcesOf({ cached: [...cached, ...live] });
    expect((await claimsOfPod(sources, "shop", [ofClaim("data")])).ours).toEqual(ours);
  });

  it("without a class are of the youngest default one", async () => {
    const isDefault = { "storageclass.kubernetes.io/is-default-class": "true" };
    const made = (name: string, creationTimestamp: string) =>
      classOf(name, "local.tidemark.dev", { annotations: isDefault, creationTimestamp });
    const cached = [made("old", "2026-01-01T00:00:00Z"), made("young", "2026-02-01T00:00:00Z"), OURS];
    const { ours } = await claimsOfPod(sourcesOf({ cached }).sources, "shop", [ephemeral("a", undefined, "1Gi")]);
    expect(ours).toEqual([{ className: "young", bytes: GIB }]);
  });

  it("are looked for up to a limit, so that one pod cannot make us ask without end", async () => {
    const { sources, asked } = sourcesOf({});
    const volumes = Array.from({ length: 5000 }, (_, index) => ofClaim(`claim-${index}`));
    await claimsOfPod(sources, "shop", volumes);
    expect(asked).toHaveLength(256);
  });
});

describe("a pod whose claims cannot be read", () => {
  const review = JSON.stringify(buildReview(buildPod([ofClaim("data")])));
  it.each<[string, KubeClient["get"]]>([
    ["the API server refuses", () => Promise.reject(new KubeError("Forbidden", 403, "no"))],
    ["the API server does not answer", () => new Promise(() => {})],
  ])("is made as it is, and whoever makes it is told: %s", async (_name, get) => {
    const results: string[] = [];
    const { sources } = sourcesOf({});
    const answer = await admitPod(
      {
        sources: { ...sources, client: { get } },
        synced: Promise.resolve(),
        asking: new Set(["tidemark-scheduler"]),
        ownNamespace: "tidemark-system",
        clock: { monotonicMs: () => 0 },
        answered: (result) => void results.push(result),
        log: createRecordingLog().log,
      },
      review,
    );
    expect(answer).toMatchObject({
      response: { allowed: true, warnings: [expect.stringContaining("claims could not be read")] },
    });
    expect(answer).not.toHaveProperty("response.patch");
    expect(results).toEqual(["Unread"]);
  });
});
