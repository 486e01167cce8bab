// What a suite says of its cluster when it has waited in vain: objects, what the nodes report, what Tidemark has logged, and what the
// member driver was last asked. A part that cannot be had says why instead.
import { readRpcLog } from "../member-driver/rpc-log.ts";
import type { ClusterUnderTest } from "./cluster-under-test.ts";
import { logsOf } from "./installed-tidemark.ts";

const KINDS = "nodes,pods,jobs,pvc,pv,volumeattachments,resourcequotas";
const DETAILED_KINDS = "filesystems,filesystemlayouts,pvc";
const RPCS_LIMIT = 40;
const LOG_CHARACTERS_PER_POD = 10_000;

/** `memberDirectory`: the member driver's, where it is ours. */
export async function whatIsThere({ kubectl }: ClusterUnderTest, memberDirectory?: string): Promise<string> {
  const told = await Promise.all([
    kubectl("get", KINDS, "--all-namespaces", "--output", "wide").catch(String),
    kubectl("get", DETAILED_KINDS, "--all-namespaces", "--output", "yaml", "--show-managed-fields").catch(String),
    kubectl("get", "events", "--all-namespaces").catch(String),
    logsOf({ kubectl }, LOG_CHARACTERS_PER_POD).catch(String),
  ]);
  const rpcs = memberDirectory === undefined ? [] : readRpcLog(memberDirectory).slice(-RPCS_LIMIT);
  return [...told, ...rpcs.map((rpc) => JSON.stringify(rpc))].join("\n");
}
