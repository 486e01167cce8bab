// The effects that no suite of a whole run must die at, each with its reason. An entry that a suite does die at fails the run, so that
// the list never says less is proven than is.
import type { NotDiedAt } from "./kill-coverage.ts";

const SIMULATED = "the simulated disk, which has no data";

export const NOT_DIED_AT: readonly NotDiedAt[] = [
  ...["bootstrap", "provisioner", "kubelet", "resizer"].map((at) => ({ at, why: "stands in for the cluster" })),
  { at: "demo", why: "the demo's own hand" },

  { at: "lease/take", why: "only where a dead leader's Lease is there", nowAndThen: true },
  { at: "lease/renew", why: "in the background, at its own times", nowAndThen: true },
  { at: "approval/apply-status", why: "in the background, at its own times", nowAndThen: true },
  { at: "event/create", why: "in the background, at its own times", nowAndThen: true },
  { at: "event/count", why: "in the background, where an event comes again", nowAndThen: true },
  { at: "member-guard/count", why: "in the background, at its own times", nowAndThen: true },
  { at: "member/create-namespace", why: "once in a cluster", nowAndThen: true },
  { at: "agent-samples/open-stream", why: "in the background, where the engine answers", nowAndThen: true },
  { at: "node-storage/status", why: "in the background, at its own times", nowAndThen: true },
  { at: "agent-state/record-places", why: "once on a node, and where its directories are moved", nowAndThen: true },
  { at: "node-storage/object", why: "where the agent has no NodeStorage yet", nowAndThen: true },
  ...["agent-admission/review-token", "metrics-access"].map((at) => ({
    at,
    why: "asks the API server, and changes nothing",
  })),

  {
    at: "shrink/cancel-balance",
    why: "of the two, an interrupted shrink passes the one that ran when it was interrupted",
    nowAndThen: true,
  },
  {
    at: "shrink/cancel-resize",
    why: "of the two, an interrupted shrink passes the one that ran when it was interrupted",
    nowAndThen: true,
  },
  ...["publish/link", "unpublish/remove-link"].map((at) => ({ at, why: SIMULATED })),
  {
    at: "stage/unmount-stranger",
    why: "with a copy of the member mounted on the node: what the kernel makes of two of them differs from time to time",
    nowAndThen: true,
  },
  { at: "extend/resize-ext4", why: "needs CAP_SYS_RESOURCE, which a host may lack", nowAndThen: true },
  {
    at: "create-volume/member",
    why: "the volume's reconciler may have written the member first, and then this write is refused or not made",
    nowAndThen: true,
  },
  { at: "member/select-node", why: "only where a member's claim has waited for a node", nowAndThen: true },
  { at: "publish/read-only", why: "repeated with the mount that it is a flag of" },
];
