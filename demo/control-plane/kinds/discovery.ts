// What is served, as clients discover it: group versions and their resources.
import type { JsonObject } from "../store/json.ts";
import { apiVersionOf, type ResourceKind } from "./resource-kind.ts";

const OBJECT_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const STATUS_VERBS = ["get", "patch", "update"];

/** /version. The minor version is that of the API whose behaviour is followed. */
export const VERSION_ANSWER: JsonObject = {
  major: "1",
  minor: "33",
  gitVersion: "v1.33.0+tidemark",
  gitCommit: "",
  gitTreeState: "clean",
  buildDate: "1970-01-01T00:00:00Z",
  goVersion: "",
  compiler: "node",
  platform: process.platform,
};

/** /api */
export function coreVersions(serverAddress: string): JsonObject {
  return {
    kind: "APIVersions",
    versions: ["v1"],
    serverAddressByClientCIDRs: [{ clientCIDR: "0.0.0.0/0", serverAddress }],
  };
}

/** /apis */
export function groupList(kinds: readonly ResourceKind[]): JsonObject {
  const groups = [...new Set(kinds.map(({ group }) => group))].filter((group) => group !== "");
  return { kind: "APIGroupList", apiVersion: "v1", groups: groups.map((group) => groupEntry(kinds, group)) };
}

/** /apis/GROUP, undefined when no kind of it is served. */
export function apiGroup(kinds: readonly ResourceKind[], group: string): JsonObject | undefined {
  if (group === "" || !kinds.some((kind) => kind.group === group)) return undefined;
  return { kind: "APIGroup", apiVersion: "v1", ...groupEntry(kinds, group) };
}

function groupEntry(kinds: readonly ResourceKind[], group: string): JsonObject {
  const served = [...new Set(kinds.filter((kind) => kind.group === group).map(({ version }) => version))];
  const versions = served.map((version) => ({ groupVersion: `${group}/${version}`, version }));
  return { name: group, versions, preferredVersion: versions[0] };
}

/** /api/v1 and /apis/GROUP/VERSION, undefined when no kind of it is served. */
export function resourceList(kinds: readonly ResourceKind[], group: string, version: string): JsonObject | undefined {
  const served = kinds.filter((kind) => kind.group === group && kind.version === version);
  const [first] = served;
  if (first === undefined) return undefined;
  const resources = served.flatMap(resourceEntries);
  return { kind: "APIResourceList", apiVersion: "v1", groupVersion: apiVersionOf(first), resources };
}

function resourceEntries(kind: ResourceKind): JsonObject[] {
  const { plural, singular, namespaced, shortNames, categories } = kind;
  const entry = {
    name: plural,
    singularName: singular,
    namespaced,
    kind: kind.kind,
    verbs: OBJECT_VERBS,
    ...(shortNames.length > 0 ? { shortNames } : {}),
    ...(categories.length > 0 ? { categories } : {}),
  };
  if (!kind.hasStatus) return [entry];
  return [entry, { name: `${plural}/status`, singularName: "", namespaced, kind: kind.kind, verbs: STATUS_VERBS }];
}
