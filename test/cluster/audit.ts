// What Tidemark writes to the API server, as the API server itself records it: one JSON line for each write of its service accounts,
// with no bodies. For counting them; nothing else reads it.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type ClusterPlaces, logOf } from "./places.ts";

const SYSTEM_GROUP = "system:serviceaccounts:tidemark-system";

const POLICY = {
  apiVersion: "audit.k8s.io/v1",
  kind: "Policy",
  omitStages: ["RequestReceived"],
  rules: [
    {
      level: "Metadata",
      userGroups: [SYSTEM_GROUP],
      verbs: ["create", "update", "patch", "delete", "deletecollection"],
    },
    { level: "None" },
  ],
};

export interface AuditedWrite {
  readonly verb: string;
  readonly user: { readonly username: string };
  readonly objectRef?: {
    readonly resource: string;
    readonly subresource?: string;
    readonly name?: string;
  };
  readonly responseStatus?: { readonly code: number };
  readonly requestReceivedTimestamp: string;
}

/** The API server's flags; writes the policy that one of them names. */
export function auditFlags(places: ClusterPlaces): Record<string, string> {
  const policy = join(places.directory, "audit-policy.json");
  writeFileSync(policy, JSON.stringify(POLICY));
  return { "audit-policy-file": policy, "audit-log-path": auditLog(places), "audit-log-format": "json" };
}

/** In the order of their ends. */
export function readAuditedWrites(places: ClusterPlaces): AuditedWrite[] {
  const path = auditLog(places);
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, "utf8").split("\n").slice(0, -1);
  return lines.map((line) => JSON.parse(line) as AuditedWrite);
}

function auditLog(places: ClusterPlaces): string {
  return logOf(places, "audit");
}
