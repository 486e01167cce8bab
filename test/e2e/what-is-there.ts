// What a suite says of its cluster when it has waited in vain: first in a few lines what its filesystems are made of and wait for, then objects,
// what the nodes report, what Tidemark has logged, and what the member driver was last asked. A part that cannot be had says why instead.
import { FILESYSTEMS } from "../../src/contracts/kinds/filesystem.ts";
import { FILESYSTEM_LAYOUTS } from "../../src/contracts/kinds/filesystem-layout.ts";
import { PERSISTENT_VOLUME_CLAIMS } from "../../src/contracts/kubernetes/resources.ts";
import { readRpcLog } from "../member-driver/rpc-log.ts";
import type { ClusterUnderTest } from "./cluster-under-test.ts";
import { logsOf } from "./installed-tidemark.ts";

const KINDS = "nodes,pods,jobs,pvc,pv,volumeattachments,resourcequotas";
const DETAILED_KINDS = "filesystems,filesystemlayouts,pvc";
const RPCS_LIMIT = 40;
const LOG_CHARACTERS_PER_POD = 10_000;

/** `memberDirectory`: the member driver's, where it is ours. */
export async function whatIsThere(tested: ClusterUnderTest, memberDirectory?: string): Promise<string> {
  const { kubectl } = tested;
  const told = await Promise.all([
    inShort(tested).catch(String),
    kubectl("get", KINDS, "--all-namespaces", "--output", "wide").catch(String),
    kubectl("get", DETAILED_KINDS, "--all-namespaces", "--output", "yaml", "--show-managed-fields").catch(String),
    kubectl("get", "events", "--all-namespaces").catch(String),
    logsOf({ kubectl }, LOG_CHARACTERS_PER_POD).catch(String),
  ]);
  const rpcs = memberDirectory === undefined ? [] : readRpcLog(memberDirectory).slice(-RPCS_LIMIT);
  return [...told, ...rpcs.map((rpc) => JSON.stringify(rpc))].join("\n");
}

/** What every failure asks for first, and what is left where a report is cut. */
async function inShort({ client }: ClusterUnderTest): Promise<string> {
  const [layouts, filesystems, claims] = await Promise.all([
    client.list(FILESYSTEM_LAYOUTS),
    client.list(FILESYSTEMS),
    client.list(PERSISTENT_VOLUME_CLAIMS),
  ]);
  const lines = [
    ...layouts.items.map(({ metadata, spec, status }) => ({
      layout: `${spec.claimRef?.name}: ${metadata.name}`,
      annotations: metadata.annotations,
      members: spec.members?.map(({ name, state, size, source }) => [name, state, size, source.claim?.capacity]),
      inside: status?.members?.map(({ name, state, size }) => [name, state, size]),
      target: spec.target,
      operation: status?.operation,
      lastOperation: status?.lastOperation,
    })),
    ...filesystems.items.map(({ metadata, spec, status }) => ({
      filesystem: metadata.name,
      target: spec.target,
      consolidation: status?.consolidation,
      conditions: status?.conditions?.map(({ type, status: is, reason, message }) => [type, is, reason, message]),
    })),
    ...claims.items
      .filter(({ metadata }) => metadata.deletionTimestamp !== undefined)
      .map(({ metadata }) => ({ deletedClaim: metadata.name, finalizers: metadata.finalizers })),
  ];
  return lines.map((line) => JSON.stringify(line)).join("\n");
}
