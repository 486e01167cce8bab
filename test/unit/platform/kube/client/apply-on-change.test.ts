import { beforeEach, describe, expect, it } from "@jest/globals";
import { type Applier, createApplier, shows } from "../../../../../src/platform/kube/client/writes.ts";
import { KubeError } from "../../../../../src/platform/kube/kube-error.ts";
import { CONFIG_MAPS, configMap } from "../../../../builders/config-map.ts";
import { servedClient } from "../../../../fakes/served-client.ts";

const OPTIONS = { fieldManager: "tidemark-operator" };
const wanted = (tier: string) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { namespace: "shop", name: "a" },
  data: { tier },
});

let applier: Applier;
let requests: number;
let failing: KubeError | undefined;

beforeEach(() => {
  requests = 0;
  failing = undefined;
  const client = servedClient({
    apply: async (_point, _resource, configuration) => {
      requests += 1;
      if (failing !== undefined) throw failing;
      return configuration;
    },
  });
  applier = createApplier(client);
});

/** True where a request was made. */
const apply = async (
  tier: string,
  live: ReturnType<typeof configMap> | undefined = configMap("a", "1", { tier }),
): Promise<boolean> =>
  (await applier.applyOnChange("test/apply", CONFIG_MAPS, wanted(tier), OPTIONS, live)) !== undefined;

describe("applyOnChange", () => {
  it("makes a request for what is new, and none for what was applied and is still there", async () => {
    expect([await apply("cache"), await apply("cache"), await apply("db"), await apply("db")]).toEqual([
      true,
      false,
      true,
      false,
    ]);
    expect(requests).toBe(2);
  });

  it("makes no request for the same on another version of the object", async () => {
    const on = async (resourceVersion: string) => {
      const configuration = wanted("cache");
      const metadata = { ...configuration.metadata, resourceVersion };
      const live = configMap("a", resourceVersion, { tier: "cache" });
      return applier.applyOnChange("test/apply", CONFIG_MAPS, { ...configuration, metadata }, OPTIONS, live);
    };
    expect([await on("1"), await on("2"), await on("2")]).toEqual([expect.anything(), undefined, undefined]);
  });

  it("applies again what somebody else overwrote, or deleted", async () => {
    await apply("cache");
    expect(await apply("cache", configMap("a", "2", { tier: "somebody else's" }))).toBe(true);
    expect(await applier.applyOnChange("test/apply", CONFIG_MAPS, wanted("cache"), OPTIONS, undefined)).toBeDefined();
  });

  it("applies for the first time even when the object looks right: it does not own the fields yet", async () => {
    expect(await apply("cache", configMap("a", "1", { tier: "cache" }))).toBe(true);
  });

  it("does not remember what failed", async () => {
    await apply("cache");
    failing = new KubeError("Unreachable", 0, "no answer");
    await expect(apply("db")).rejects.toThrow("no answer");
    failing = undefined;
    expect(await apply("cache")).toBe(true);
  });

  it("still knows what it applied before a Conflict, of which the server has taken nothing", async () => {
    await apply("cache");
    failing = new KubeError("Conflict", 409, "the object has been modified");
    await expect(apply("cache", configMap("a", "1", { tier: "db" }))).rejects.toThrow("modified");
    expect(await apply("cache")).toBe(false);
  });
});

describe("shows", () => {
  it.each([
    [{ a: 1, b: { c: 2 } }, { b: { c: 2 } }, true],
    [{ a: 1 }, { a: 2 }, false],
    [{ a: 1 }, { b: undefined }, true],
    [
      { list: [{ type: "Ready", status: "True", reason: "x" }, { type: "Other" }] },
      { list: [{ type: "Ready", status: "True" }] },
      true,
    ],
    [{ list: [{ type: "Ready", status: "False" }] }, { list: [{ type: "Ready", status: "True" }] }, false],
    [{ a: null }, { a: {} }, false],
    [undefined, { a: 1 }, false],
  ])("%j shows %j: %s", (live, configuration, expected) => {
    expect(shows(live, configuration)).toBe(expected);
  });
});
