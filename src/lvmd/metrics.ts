// What Prometheus scrapes from lvmd. Gauges are read from the last report at each scrape; LVM is not asked.
import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { RefusalCode } from "../contracts/csi/refusal.ts";
import { createMetricsRegistry } from "../platform/process/metrics/metrics-server.ts";
import { type ClassState, classState, promisableBytes, volumesOf } from "./classes/class-state.ts";
import { figuresOf, readDiskFigures } from "./devices.ts";
import type { Report, ReportedVolume } from "./lvm/report.ts";
import type { Settings } from "./settings/settings.ts";
import { isUnusable } from "./volumes/volume-host.ts";

export interface LvmdMetrics {
  readonly registry: Registry;
  commandEnded(command: string, outcome: string, durationMs: number): void;
  callAnswered(method: string, code: RefusalCode | "OK", durationMs: number): void;
}

export interface LvmdMetricsParts {
  readonly settings: () => Settings;
  readonly report: () => Report | undefined;
  readonly strandedCommands: () => number;
}

const BUCKETS_SECONDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60];
const CLAIM_TAG = /^tidemark\.dev\/claim=([^/]+)\/(.+)$/;

export function createLvmdMetrics(): LvmdMetrics {
  const registry = createMetricsRegistry();
  const commands = new Histogram({
    name: "tidemark_lvm_command_duration_seconds",
    help: "LVM commands, by how they ended.",
    labelNames: ["command", "outcome"],
    buckets: BUCKETS_SECONDS,
    registers: [registry],
  });
  const calls = new Histogram({
    name: "tidemark_lvmd_call_duration_seconds",
    help: "Calls of lvmd, by their answers.",
    labelNames: ["method", "code"],
    buckets: BUCKETS_SECONDS,
    registers: [registry],
  });
  return {
    registry,
    commandEnded: (command, outcome, durationMs) => commands.observe({ command, outcome }, durationMs / 1000),
    callAnswered: (method, code, durationMs) => calls.observe({ method, code }, durationMs / 1000),
  };
}

interface Figure<Of> {
  readonly name: string;
  readonly help: string;
  /** Undefined: there is no such series. */
  readonly value: (of: Of) => number | undefined;
}

const CLASS_FIGURES: readonly Figure<ClassState>[] = [
  {
    name: "tidemark_device_class_size_bytes",
    help: "What the volumes of a device class could have in all.",
    value: ({ sizeBytes }) => sizeBytes,
  },
  {
    name: "tidemark_device_class_free_bytes",
    help: "What one more volume of a device class can have; its spare is not in it.",
    value: ({ freeBytes }) => freeBytes,
  },
  {
    name: "tidemark_volume_group_size_bytes",
    help: "Size of a device class' volume group.",
    value: ({ group }) => group.sizeBytes,
  },
  {
    name: "tidemark_volume_group_free_bytes",
    help: "Free bytes of a device class' volume group, its spare included.",
    value: ({ group }) => group.freeBytes,
  },
  {
    name: "tidemark_thin_pool_size_bytes",
    help: "Size of a device class' thin pool.",
    value: ({ thin }) => thin?.pool.sizeBytes,
  },
  {
    name: "tidemark_thin_pool_data_ratio",
    help: "How much of a thin pool is written.",
    value: ({ thin }) => thin && thin.pool.dataPercent / 100,
  },
  {
    name: "tidemark_thin_pool_metadata_ratio",
    help: "How much of a thin pool's metadata is used.",
    value: ({ thin }) => thin && thin.pool.metadataPercent / 100,
  },
  {
    name: "tidemark_thin_pool_overprovision_free_bytes",
    help: "What volumes of a thin pool may still promise, its spare included.",
    value: ({ group, thin }) => thin && promisableBytes(group, thin.pool, thin.settings),
  },
];

const VOLUME_FIGURES: readonly Figure<ReportedVolume>[] = [
  {
    name: "tidemark_logical_volume_size_bytes",
    help: "Size of a logical volume.",
    value: ({ sizeBytes }) => sizeBytes,
  },
  {
    name: "tidemark_logical_volume_data_ratio",
    help: "How much of a thin volume is mapped.",
    value: ({ pool, dataPercent }) => (pool === "" ? undefined : dataPercent / 100),
  },
];

const IO_FIGURES = [
  { name: "tidemark_logical_volume_reads_total", help: "Reads of a logical volume.", field: "reads" },
  { name: "tidemark_logical_volume_read_bytes_total", help: "Bytes read from a logical volume.", field: "readBytes" },
  { name: "tidemark_logical_volume_writes_total", help: "Writes to a logical volume.", field: "writes" },
  {
    name: "tidemark_logical_volume_written_bytes_total",
    help: "Bytes written to a logical volume.",
    field: "writtenBytes",
  },
] as const;

const VOLUME_LABELS = ["device_class", "volume", "namespace", "persistentvolumeclaim"];

export function registerLvmdGauges(registry: Registry, parts: LvmdMetricsParts): void {
  for (const { name, help, value } of CLASS_FIGURES)
    gauge(registry, name, help, ["device_class"], (set) => {
      for (const state of statesOf(parts)) set({ device_class: state.deviceClass.name }, value(state));
    });
  for (const { name, help, value } of VOLUME_FIGURES)
    gauge(registry, name, help, VOLUME_LABELS, (set) => {
      for (const { labels, volume } of namedVolumes(parts)) set(labels, value(volume));
    });
  registerIoCounters(registry, parts);
  gauge(registry, "tidemark_lvmd_stranded_commands", "Commands left behind in the kernel.", [], (set) =>
    set({}, parts.strandedCommands()),
  );
}

/** The kernel counts; each scrape takes its figures as they are. */
function registerIoCounters(registry: Registry, parts: LvmdMetricsParts): void {
  for (const { name, help, field } of IO_FIGURES)
    new Counter({
      name,
      help,
      labelNames: VOLUME_LABELS,
      registers: [registry],
      collect() {
        this.reset();
        const figures = readDiskFigures();
        for (const { labels, volume } of namedVolumes(parts)) {
          const value = figuresOf(figures, volume.device)?.[field];
          if (value !== undefined) this.inc(labels, value);
        }
      },
    });
}

type Labels = Record<string, string>;

function gauge(
  registry: Registry,
  name: string,
  help: string,
  labelNames: string[],
  collect: (set: (labels: Labels, value: number | undefined) => void) => void,
): void {
  new Gauge({
    name,
    help,
    labelNames,
    registers: [registry],
    collect() {
      this.reset();
      collect((labels, value) => {
        if (value !== undefined) this.set(labels, value);
      });
    },
  });
}

function statesOf({ settings, report }: LvmdMetricsParts): ClassState[] {
  return settings()
    .deviceClasses.map((deviceClass) => classState(report(), deviceClass))
    .filter((state) => !isUnusable(state)) as ClassState[];
}

/** The claim stands in the volume's tags. */
function namedVolumes(parts: LvmdMetricsParts): { readonly labels: Labels; readonly volume: ReportedVolume }[] {
  return statesOf(parts).flatMap((state) =>
    volumesOf(state).map((volume) => {
      const claim = volume.tags.map((tag) => CLAIM_TAG.exec(tag)).find((match) => match !== null);
      const labels = {
        device_class: state.deviceClass.name,
        volume: volume.name,
        namespace: claim?.[1] ?? "",
        persistentvolumeclaim: claim?.[2] ?? "",
      };
      return { labels, volume };
    }),
  );
}
