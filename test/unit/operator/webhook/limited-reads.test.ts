// Many pods with many claims that no cache has, all at once: how much of that reaches the API server, and what becomes of the rest.
import { describe, expect, it } from "@jest/globals";
import { objectKey } from "../../../../src/contracts/kubernetes/object.ts";
import { PERSISTENT_VOLUME_CLAIMS, type StorageClass } from "../../../../src/contracts/kubernetes/resources.ts";
import { limitReads } from "../../../../src/operator/webhook/pod-claims.ts";
import { admitPod } from "../../../../src/operator/webhook/pod-webhook.ts";
import { createStore } from "../../../../src/platform/kube/cache/store.ts";
import type { KubeClient } from "../../../../src/platform/kube/client/client.ts";
import { KubeError } from "../../../../src/platform/kube/kube-error.ts";
import { buildPod, buildReview, ephemeral, ofClaim } from "../../../builders/pod-review.ts";
import { createRecordingLog } from "../../../fakes/recording-log.ts";

const LIMITS = { underWay: 3, waiting: 5, turnLimitMs: 2000 };

/** An API server that answers when the test says so: it has no claims. */
function slowReads() {
  const asked: string[] = [];
  const answers: (() => void)[] = [];
  let underWay = 0;
  let mostUnderWay = 0;
  const get = (async (_resource, name) => {
    asked.push(objectKey(name));
    underWay += 1;
    mostUnderWay = Math.max(mostUnderWay, underWay);
    await new Promise<void>((resolve) => answers.push(resolve));
    underWay -= 1;
    return undefined;
  }) as KubeClient["get"];
  /** Those under way, and those that come to be. */
  const answerAll = async (): Promise<void> => {
    await settled();
    while (answers.length > 0) {
      answers.shift()?.();
      await settled();
    }
  };
  return { client: { get }, asked, answerAll, most: () => mostUnderWay };
}

/** All that can go on without an answer has gone on. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const clockAt = (clock: { nowMs: number }) => ({ monotonicMs: () => clock.nowMs });
/** Of pods with 200 claims: so many have all of their reads within 8 under way and 2048 waiting. */
const MOST_READ = 10;
const numbers = (count: number): string[] => Array.from({ length: count }, (_, index) => `claim-${index}`);

describe("reads for admissions", () => {
  const read = (client: Pick<KubeClient, "get">, name: string) =>
    client.get(PERSISTENT_VOLUME_CLAIMS, { namespace: "shop", name });

  it("reach the API server a few at a time, in their order, and each is answered", async () => {
    const { client, asked, answerAll, most } = slowReads();
    const limited = limitReads(client, LIMITS, clockAt({ nowMs: 0 }));
    const reading = Promise.all(numbers(8).map((name) => read(limited, name)));
    await settled();
    expect(asked).toHaveLength(3);
    await answerAll();
    await reading;
    expect(asked).toEqual(numbers(8).map((name) => `shop/${name}`));
    expect(most()).toBe(3);
  });

  it("are refused at once where too many wait already, and are taken again once those are through", async () => {
    const { client, asked, answerAll } = slowReads();
    const limited = limitReads(client, LIMITS, clockAt({ nowMs: 0 }));
    const reading = Promise.all(numbers(8).map((name) => read(limited, name)));
    await expect(read(limited, "one-more")).rejects.toThrow("too many claims of pods are being read at once");
    await answerAll();
    await reading;
    const again = read(limited, "again");
    await answerAll();
    expect(await again).toBeUndefined();
    expect(asked).not.toContain("shop/one-more");
  });

  it("whose turn comes when nobody waits any more do not reach it", async () => {
    const clock = { nowMs: 0 };
    const { client, asked, answerAll } = slowReads();
    const limited = limitReads(client, LIMITS, clockAt(clock));
    const reading = Promise.allSettled(numbers(8).map((name) => read(limited, name)));
    clock.nowMs = LIMITS.turnLimitMs + 1;
    await answerAll();
    expect((await reading).map(({ status }) => status)).toEqual([
      ...Array.from({ length: 3 }, () => "fulfilled"),
      ...Array.from({ length: 5 }, () => "rejected"),
    ]);
    expect(asked).toHaveLength(3);
    const again = read(limited, "again");
    await answerAll();
    expect(await again).toBeUndefined();
  });

  it("give their place back when they fail", async () => {
    const failing = (() => Promise.reject(new KubeError("Unreachable", 0, "no answer"))) as KubeClient["get"];
    const limited = limitReads({ get: failing }, LIMITS, clockAt({ nowMs: 0 }));
    for (const name of numbers(20)) await expect(read(limited, name)).rejects.toThrow("no answer");
  });
});

describe("a hundred pods with two hundred claims each, which no cache has", () => {
  it("never ask for more at a time than the limit, are all made, and hold up no pod whose claims are in the caches", async () => {
    const { client, answerAll, asked, most } = slowReads();
    const classes = createStore<StorageClass>({});
    classes.put({
      apiVersion: "storage.k8s.io/v1",
      kind: "StorageClass",
      metadata: { name: "fast" },
      provisioner: "local.tidemark.dev",
    });
    const results: string[] = [];
    const limits = { underWay: 8, waiting: 2048, turnLimitMs: 2000 };
    const clock = clockAt({ nowMs: 0 });
    const admission = {
      sources: {
        client: limitReads(client, limits, clock),
        claims: { store: createStore<never>({}) },
        storageClasses: { store: classes },
        persistentVolumes: { store: createStore<never>({}) },
      },
      synced: Promise.resolve(),
      asking: new Set(["tidemark-scheduler"]),
      ownNamespace: "tidemark-system",
      clock,
      answered: (result: string) => void results.push(result),
      log: createRecordingLog().log,
    };
    const admitted = (volumes: Parameters<typeof buildPod>[0]) =>
      admitPod(admission, JSON.stringify(buildReview(buildPod(volumes))));
    const flood = numbers(100).map((pod) => admitted(numbers(200).map((name) => ofClaim(`${pod}-${name}`))));
    await settled();
    expect(asked).toHaveLength(8);
    await admitted([ephemeral("scratch", "fast", "1Gi")]);
    expect(results).toContain("Marked");
    await answerAll();
    for (const answer of await Promise.all(flood)) expect(answer).toMatchObject({ response: { allowed: true } });
    expect(most()).toBe(8);
    expect(asked.length).toBeLessThanOrEqual(limits.waiting + limits.underWay);
    expect(results).toHaveLength(101);
    // How many of them are read in time is the machine's affair.
    expect(results.filter((result) => result === "Unread").length).toBeGreaterThanOrEqual(100 - MOST_READ);
  });
});
