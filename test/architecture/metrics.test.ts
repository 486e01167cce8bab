import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "@jest/globals";
import type { Registry } from "prom-client";
import { createAgentMetrics, registerKubeletGauge, registerOrphanGauge } from "../../src/agent/metrics.ts";
import { createThinPoolKeeper } from "../../src/agent/thin-pool/thin-pool-keeper.ts";
import { createExtenderMetrics } from "../../src/extender/metrics.ts";
import { createLvmdMetrics, type LvmdMetricsParts, registerLvmdGauges } from "../../src/lvmd/metrics.ts";
import type { VolumeCaches } from "../../src/operator/gather/volume-caches.ts";
import { createOperatorMetrics, registerLostNodeVolumes, registerMemberBytes } from "../../src/operator/metrics.ts";
import { registerPodWebhook } from "../../src/operator/webhook/pod-webhook.ts";
import { createLogger } from "../../src/platform/process/log.ts";
import { registerPolicyWebhook } from "../../src/policy-engine/admission/policy-webhook.ts";
import { createEngineMetrics } from "../../src/policy-engine/metrics.ts";
import { createFleet } from "../builders/placement.ts";
import { doubleOf } from "../fakes/double-of.ts";
import { filledCache } from "../fakes/filled-cache.ts";

const PAGE = "docs/reference/metrics.md";
const OTHER_PAGES = ["README.md", ...markdownBelow("docs").filter((path) => path !== PAGE)];

/** Of each process all that it can register; nothing is read before Prometheus asks, and here it never does. */
const REGISTRIES: Readonly<Record<string, () => Registry>> = {
  "policy-engine": () => {
    const { registry } = createEngineMetrics(() => false);
    registerPolicyWebhook(registry);
    return registry;
  },
  operator: () => {
    const { registry } = createOperatorMetrics();
    registerPodWebhook(registry, () => 0);
    const caches = doubleOf<VolumeCaches>("VolumeCaches", {});
    registerMemberBytes(registry, caches);
    registerLostNodeVolumes(registry, caches, filledCache());
    return registry;
  },
  agent: () => {
    const { registry } = createAgentMetrics({
      volumes: new Map(),
      claims: () => [],
      clock: { nowMs: () => 0, monotonicMs: () => 0 },
      strandedThreads: () => 0,
      strandedCommands: () => 0,
      connectedEngines: () => 0,
    });
    registerKubeletGauge(registry, []);
    registerOrphanGauge(registry, () => new Map());
    createThinPoolKeeper({
      nodeName: "node-a",
      policies: { list: () => [] },
      extendPool: async () => undefined,
      events: { record: () => undefined },
      registry,
      clock: { monotonicMs: () => 0 },
      log: createLogger("test", "silent"),
    });
    return registry;
  },
  lvmd: () => {
    const { registry } = createLvmdMetrics();
    registerLvmdGauges(registry, doubleOf<LvmdMetricsParts>("LvmdMetricsParts", {}));
    return registry;
  },
  extender: () => {
    const { view, ledger } = createFleet();
    return createExtenderMetrics(view, ledger, () => 0).registry;
  },
};

function markdownBelow(directory: string): string[] {
  return pathsBelow(directory).filter((path) => path.endsWith(".md"));
}

function pathsBelow(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: "utf8" }).map((path) => `${directory}/${path}`);
}

interface Described {
  readonly name: string;
  readonly type: string;
  readonly labels: readonly string[];
}

/** The rows of the process' section; the page has one section for each. */
function described(processName: string): Described[] {
  const section = sections().find((part) => part.startsWith(`${processName}\n`)) ?? "";
  const rows = section.matchAll(/^\| `(\w+)` +\| (\w+) +\| ([\w, ]*?) +\| \S.* \| \S.* \|$/gm);
  return [...rows].map(([, name = "", type = "", labels = ""]) => ({
    name,
    type,
    labels: labels.split(", ").filter((label) => label !== ""),
  }));
}

function sections(): string[] {
  return readFileSync(PAGE, "utf8").split("\n## ").slice(1);
}

function registered(registry: Registry): Described[] {
  // eslint-disable-next-line no-restricted-syntax -- prom-client's own type has no labels, and says that the type is a number
  const metrics = registry.getMetricsAsArray() as unknown as (Described & { readonly labelNames: readonly string[] })[];
  return metrics
    .filter(({ name }) => name.startsWith("tidemark_"))
    .map(({ name, type, labelNames }) => ({ name, type, labels: labelNames }));
}

/** The names in those files of the process that make metrics; others only ask for them. */
function writtenIn(processName: string): string[] {
  const texts = pathsBelow(`src/${processName}`)
    .filter((path) => path.endsWith(".ts"))
    .map((path) => readFileSync(path, "utf8"))
    .filter((text) => text.includes('"prom-client"'));
  return texts.flatMap((text) => [...text.matchAll(/"(tidemark_\w+)"/g)].map(([, name = ""]) => name));
}

const byName = (one: { readonly name: string }, other: { readonly name: string }) => (one.name < other.name ? -1 : 1);

describe("the page of metrics", () => {
  it.each(Object.entries(REGISTRIES))(
    "describes of %s each metric, its type and its labels, and no other",
    (processName, make) => {
      expect(described(processName).sort(byName)).toEqual(registered(make()).sort(byName));
    },
  );

  it.each(Object.keys(REGISTRIES))("has each name that is written in the source of %s", (processName) => {
    const names = described(processName).map(({ name }) => name);
    expect(names.length).toBeGreaterThan(0);
    expect(names.sort()).toEqual([...new Set(writtenIn(processName))].sort());
  });

  it("has a section for each process that makes metrics, and every row has a place in one", () => {
    const processes = readdirSync("src").filter((name) => !name.includes(".") && writtenIn(name).length > 0);
    expect(sections().map((part) => part.split("\n")[0])).toEqual(Object.keys(REGISTRIES));
    expect(processes.sort()).toEqual(Object.keys(REGISTRIES).sort());
    const rows = readFileSync(PAGE, "utf8").match(/^\| `tidemark_/gm) ?? [];
    expect(rows.length).toBe(Object.keys(REGISTRIES).flatMap(described).length);
  });
});

describe("a metric that is named elsewhere", () => {
  const names = new Set(
    Object.keys(REGISTRIES)
      .flatMap(described)
      .map(({ name }) => name),
  );

  it.each([...OTHER_PAGES, "src/policy-engine/gather/prometheus/prometheus.ts"])("exists: %s", (path) => {
    const named = [...readFileSync(path, "utf8").matchAll(/\btidemark_[a-z_]+[a-z]/g)].map(([name]) => name);
    expect(named.filter((name) => !names.has(name))).toEqual([]);
  });
});
