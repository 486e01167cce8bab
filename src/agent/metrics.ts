// What Prometheus scrapes from an agent. Gauges are read from the state at each scrape; a filesystem without a fresh reading
// has no series, since no data is never 0.
import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { LastOperation } from "../contracts/kinds/filesystem-layout.ts";
import type { SampledReading } from "../contracts/reading.ts";
import type { Clock } from "../platform/process/clock.ts";
import { createMetricsRegistry } from "../platform/process/metrics/metrics-server.ts";
import type { KubeletRegistration } from "./csi/kubelet-registration.ts";
import type { MeasuredClaim } from "./ordinary-claims/claim-measurer.ts";
import type { VolumesByHandle } from "./volumes/node-volume.ts";

export interface AgentMetrics {
  readonly registry: Registry;
  operationEnded(operation: LastOperation): void;
  /** Of a policy's schedule; those that follow a shrink belong to it. */
  trimEnded(outcome: "Trimmed" | "GaveWay" | "Failed", trimmedBytes: number): void;
}

export interface AgentMetricsParts {
  readonly volumes: VolumesByHandle;
  /** Of other drivers. */
  readonly claims: () => Iterable<MeasuredClaim>;
  readonly clock: Clock;
  readonly strandedThreads: () => number;
  readonly strandedCommands: () => number;
  readonly connectedEngines: () => number;
}

/** Samples come at least once a second. */
const FRESH_MS = 5000;
const DURATION_BUCKETS_SECONDS = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300];
const CLAIM_LABELS = ["namespace", "persistentvolumeclaim"] as const;

export function createAgentMetrics(parts: AgentMetricsParts): AgentMetrics {
  const registry = createMetricsRegistry();
  registerFilesystemGauges(registry, parts);
  registerHealthGauges(registry, parts);
  const operations = new Counter({
    name: "tidemark_filesystem_operations_total",
    help: "Extends and shrinks that have ended, by how they ended.",
    labelNames: ["kind", "outcome", "emergency"],
    registers: [registry],
  });
  const durations = new Histogram({
    name: "tidemark_filesystem_operation_duration_seconds",
    help: "Time from the begin of an extend or shrink to its end.",
    labelNames: ["kind", "outcome"],
    buckets: DURATION_BUCKETS_SECONDS,
    registers: [registry],
  });
  const trims = new Counter({
    name: "tidemark_filesystem_trims_total",
    help: "Trims by a policy's schedule, by how they ended: Trimmed, GaveWay to another operation, or Failed.",
    labelNames: ["outcome"],
    registers: [registry],
  });
  const trimmed = new Counter({
    name: "tidemark_filesystem_trimmed_bytes_total",
    help: "Unused bytes that trims by a policy's schedule gave back to thin pools and to the host, as the filesystems count them.",
    registers: [registry],
  });
  return {
    registry,
    trimEnded: (outcome, trimmedBytes) => {
      trims.inc({ outcome });
      trimmed.inc(trimmedBytes);
    },
    operationEnded: ({ kind, outcome, emergency, startedAt, endedAt }) => {
      operations.inc({ kind, outcome, emergency: String(emergency === true) });
      durations.observe({ kind, outcome }, Math.max(0, Date.parse(endedAt) - Date.parse(startedAt)) / 1000);
    },
  };
}

const FILESYSTEM_GAUGES: readonly { name: string; help: string; value: (reading: SampledReading) => number }[] = [
  {
    name: "tidemark_filesystem_capacity_bytes",
    help: "Capacity of the mounted filesystem, by statfs.",
    value: ({ capacityBytes }) => capacityBytes,
  },
  {
    name: "tidemark_filesystem_used_bytes",
    help: "Capacity less what a writer can still write, reservations included.",
    value: ({ capacityBytes, availableBytes }) => capacityBytes - availableBytes,
  },
  {
    name: "tidemark_filesystem_available_bytes",
    help: "What a writer can still write.",
    value: ({ availableBytes }) => availableBytes,
  },
  {
    name: "tidemark_filesystem_inodes",
    help: "Inodes of the filesystem; 0 when it has no limit.",
    value: ({ inodesTotal }) => inodesTotal,
  },
  {
    name: "tidemark_filesystem_inodes_used",
    help: "Inodes in use.",
    value: ({ inodesUsed }) => inodesUsed,
  },
];

function measuredOf({ volumes, claims }: Pick<AgentMetricsParts, "volumes" | "claims">): Measured[] {
  const own = [...volumes.values()].map(({ state: { record, reading, mounted } }) => ({
    claimRef: record.claimRef,
    reading,
    hung: mounted?.hung === true,
  }));
  return [...own, ...claims()];
}

type Measured = Omit<MeasuredClaim, "claimRef"> & {
  readonly claimRef: { readonly namespace?: string | undefined; readonly name: string } | undefined;
};

function registerFilesystemGauges(registry: Registry, parts: AgentMetricsParts): void {
  for (const { name, help, value } of FILESYSTEM_GAUGES)
    new Gauge({
      name,
      help,
      labelNames: [...CLAIM_LABELS],
      registers: [registry],
      collect() {
        this.reset();
        for (const { claimRef, reading, hung } of measuredOf(parts)) {
          if (reading === undefined || hung || parts.clock.monotonicMs() - reading.takenMs > FRESH_MS) continue;
          if (claimRef?.namespace === undefined) continue;
          this.set({ namespace: claimRef.namespace, persistentvolumeclaim: claimRef.name }, value(reading));
        }
      },
    });
}

function registerHealthGauges(registry: Registry, parts: AgentMetricsParts): void {
  const gauge = (name: string, help: string, value: () => number): void => {
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(value());
      },
    });
  };
  gauge(
    "tidemark_agent_filesystems",
    "Filesystems mounted on this node.",
    () => [...parts.volumes.values()].filter(({ state }) => state.mounted !== undefined).length,
  );
  gauge(
    "tidemark_agent_claims",
    "Claims of other drivers that are measured on this node.",
    () => [...parts.claims()].length,
  );
  gauge(
    "tidemark_agent_hung_filesystems",
    "Filesystems that do not answer.",
    () => measuredOf(parts).filter(({ hung }) => hung).length,
  );
  gauge(
    "tidemark_agent_read_only_filesystems",
    "Mounted filesystems that take no writes.",
    () => [...parts.volumes.values()].filter(({ state }) => state.mounted?.readOnlySinceMs !== undefined).length,
  );
  gauge(
    "tidemark_agent_stranded_threads",
    "Threads that read filesystems, left behind in the kernel.",
    parts.strandedThreads,
  );
  gauge("tidemark_agent_stranded_commands", "Commands left behind in the kernel.", parts.strandedCommands);
  gauge("tidemark_agent_connected_engines", "Policy engines that samples are streamed to.", parts.connectedEngines);
}

/** Where kubelet is to know the driver; standalone there is no such series. */
export function registerKubeletGauge(
  registry: Registry,
  registrations: readonly Pick<KubeletRegistration, "driverName" | "notRegistered">[],
): void {
  new Gauge({
    name: "tidemark_agent_kubelet_registered",
    help: "Whether kubelet has registered the CSI driver (1), or refused it or not asked yet (0).",
    labelNames: ["driver"],
    registers: [registry],
    collect() {
      for (const { driverName, notRegistered } of registrations)
        this.set({ driver: driverName }, notRegistered() === undefined ? 1 : 0);
    },
  });
}

/** Where the node has an lvmd. */
export function registerOrphanGauge(registry: Registry, orphanCounts: () => ReadonlyMap<string, number>): void {
  new Gauge({
    name: "tidemark_agent_orphaned_logical_volumes",
    help: "Logical volumes with Tidemark's tags that no object names; they are left as they are.",
    labelNames: ["device_class"],
    registers: [registry],
    collect() {
      this.reset();
      for (const [deviceClass, count] of orphanCounts()) this.set({ device_class: deviceClass }, count);
    },
  });
}
