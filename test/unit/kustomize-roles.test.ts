// Each process' roles against the calls in its sources: what is called must be allowed, and what is allowed must be called.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import * as filesystems from "../../src/contracts/kinds/filesystem.ts";
import * as layouts from "../../src/contracts/kinds/filesystem-layout.ts";
import * as logicalVolumes from "../../src/contracts/kinds/logical-volume.ts";
import * as nodeStorages from "../../src/contracts/kinds/node-storage.ts";
import * as approvals from "../../src/contracts/kinds/scaling-approval.ts";
import * as policies from "../../src/contracts/kinds/volume-policy.ts";
import type { KubeObject, Resource } from "../../src/contracts/kubernetes/object.ts";
import * as builtIn from "../../src/contracts/kubernetes/resources.ts";
import { POLICY_WEBHOOK_SECRETS } from "../../src/contracts/names.ts";
import { RESOURCES as READ_BY_EXTENDER } from "../../src/extender/gather/cluster-stores.ts";
import {
  hasKubectl,
  kustomize,
  kustomizeWith,
  type Manifest,
  manifestsOf,
  type Rule,
  rulesOf,
} from "../harness/kustomize.ts";

const describeWithKubectl = hasKubectl() ? describe : describe.skip;
const foundation = hasKubectl() ? manifestsOf(kustomize("foundation")) : [];
const manifests = hasKubectl() ? manifestsOf(kustomize("base")) : [];
const placementManifests = hasKubectl() ? manifestsOf(kustomizeWith("base", {}, ["components/placement"])) : [];
const WEBHOOK_COMPONENTS = ["components/placement", "components/policy-admission"];
const webhookManifests = hasKubectl() ? manifestsOf(kustomizeWith("base", {}, WEBHOOK_COMPONENTS)) : [];

/** Every resource constant by its name. */
const RESOURCES = new Map(
  Object.entries({
    ...filesystems,
    ...layouts,
    ...logicalVolumes,
    ...nodeStorages,
    ...approvals,
    ...policies,
    ...builtIn,
  }).filter((entry): entry is [string, Resource<KubeObject>] => isResource(entry[1])),
);

function isResource(value: unknown): value is Resource<KubeObject> {
  return typeof value === "object" && value !== null && "plural" in value;
}

/** Files outside a process' folder whose calls are made in its name, too. */
const SOURCES = {
  operator: ["src/operator", "src/platform/kube/election/lease.ts", "src/platform/kube/events/events.ts"],
  agent: ["src/agent", "src/platform/kube/events/events.ts"],
  "policy-engine": [
    "src/policy-engine",
    "src/platform/process/certificates",
    "src/platform/kube/election/lease.ts",
    "src/platform/kube/events/events.ts",
  ],
} as const;

/** An apply of a status never makes an object; of the others, those that may find none there. */
const APPLIES_THAT_CREATE: Readonly<Record<keyof typeof SOURCES, readonly string[]>> = {
  operator: ["filesystems", "filesystemlayouts", "configmaps", "csistoragecapacities"],
  agent: ["nodestorages"],
  "policy-engine": [],
};

/** What a process can do only where somebody allows it by a Role of their own: docs/reference/installation.md says which. */
const ALLOWED_BY_USERS: Readonly<Partial<Record<keyof typeof SOURCES, readonly string[]>>> = {
  agent: ["get secrets"],
};

/** Verbs that no call uses: by them kustomize/foundation/process-scope.yaml knows who asks. */
const MARKS = {
  operator: ["write-any-field filesystems", "write-any-field filesystemlayouts", "own-volumes filesystemlayouts"],
  agent: ["report filesystemlayouts"],
  "policy-engine": ["report filesystemlayouts"],
} as const;

/** Rules of the operator's account that are the sidecars'. */
const SIDECAR_ROLES = ["tidemark-csi-provisioner", "tidemark-csi-attacher", "tidemark-csi-resizer", "csi-sidecars"];

/** A part of the operator that a component turns on, and what is called in its name there. */
const POD_WEBHOOK = ["src/operator/webhook", "src/platform/process/certificates"];

function sourceOf(path: string): string {
  if (path.endsWith(".ts")) return readFileSync(path, "utf8").replaceAll(/\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/.*$/gm, "");
  return readdirSync(path)
    .map((name) => join(path, name))
    .filter((child) => !POD_WEBHOOK.includes(child))
    .filter((child) => child.endsWith(".ts") || !child.includes("."))
    .map(sourceOf)
    .join("\n");
}

/** "verb plural" or "verb plural/status", as RBAC calls them, of every call in a text. */
function callsIn(text: string, applyCreates: readonly string[]): Set<string> {
  const calls = new Set<string>();
  const note = (resource: string | undefined, verbs: readonly string[], subresource = ""): void => {
    const found = RESOURCES.get(resource ?? "");
    if (found !== undefined) for (const verb of verbs) calls.add(`${verb} ${found.plural}${subresource}`);
  };
  for (const [, resource] of text.matchAll(/createReflector\(\{[^}]*?resource: ([A-Z_]+|ofWebhooks)/g))
    for (const name of ofVariable(resource)) note(name, ["list", "watch"]);
  for (const [, resource] of text.matchAll(/: of(?:Policies)?\(([A-Z_]+)\)/g)) note(resource, ["list", "watch"]);
  for (const [, verb = "", resource] of text.matchAll(
    /\.(get|list|create|update|delete)\(\s*(?:"[^"]+",\s*)?([A-Z_]+|ofPolicies)\b/g,
  ))
    for (const name of ofVariable(resource)) note(name, [verb]);
  for (const [, resource, rest = ""] of text.matchAll(/\.mergePatch\(\s*"[^"]+",\s*([A-Z_]+)\b([\s\S]*?)\);\n/g))
    note(resource, ["patch"], /"status",?\s*$/.test(rest) ? "/status" : "");
  for (const [, conditions, resource, rest = ""] of text.matchAll(
    /\.apply(OnChange)?\(\s*(?:"[^"]+"|point),\s*([A-Za-z_]+)\b([\s\S]*?)\);\n/g,
  )) {
    const ofStatus = conditions !== undefined || /subresource: "status"/.test(rest);
    for (const name of ofVariable(resource)) {
      const creates = !ofStatus && applyCreates.includes(RESOURCES.get(name)?.plural ?? "");
      note(name, creates ? ["create", "patch"] : ["patch"], ofStatus ? "/status" : "");
    }
  }
  return calls;
}

/** A variable: policies and webhooks' configurations, of both kinds each. */
function ofVariable(resource = ""): readonly string[] {
  const kinds: Readonly<Record<string, readonly string[]>> = {
    ofPolicies: ["VOLUME_POLICIES", "CLUSTER_VOLUME_POLICIES"],
    ofWebhooks: ["MUTATING_WEBHOOK_CONFIGURATIONS", "VALIDATING_WEBHOOK_CONFIGURATIONS"],
  };
  return kinds[resource] ?? [resource];
}

function allowed(rules: readonly Rule[]): Set<string> {
  return new Set(
    rules.flatMap(({ resources, verbs }) =>
      resources.flatMap((resource) => verbs.map((verb) => `${verb} ${resource}`)),
    ),
  );
}

describeWithKubectl("the roles in kustomize/base", () => {
  const ownManifests = manifests.filter(({ metadata }) => !SIDECAR_ROLES.includes(metadata.name));

  it.each(Object.keys(SOURCES) as (keyof typeof SOURCES)[])(
    "let the %s do what its code calls, and nothing else",
    (name) => {
      const calls = callsIn(SOURCES[name].map(sourceOf).join("\n"), APPLIES_THAT_CREATE[name]);
      for (const call of ALLOWED_BY_USERS[name] ?? []) expect(calls.delete(call)).toBe(true);
      expect(calls.size).toBeGreaterThan(5);
      const marks = MARKS[name] ?? [];
      expect([...allowed(rulesOf(ownManifests, name))].sort()).toEqual([...calls, ...marks].sort());
    },
  );

  it("let the extender, where it is installed, read what its code reads, and nothing else", () => {
    const placement = manifestsOf(kustomizeWith("base", {}, ["components/placement"]));
    // Its caches are made of one list of kinds.
    const read = Object.values(READ_BY_EXTENDER).flatMap(({ plural }) => [`list ${plural}`, `watch ${plural}`]);
    const calls = new Set([...callsIn(sourceOf("src/extender"), []), ...read]);
    expect(calls.size).toBe(22);
    expect([...allowed(rulesOf(placement, "extender"))].sort()).toEqual([...calls].sort());
  });

  it.each([...Object.keys(SOURCES), "extender"])(
    "let the %s ask who reads its metrics with the component metrics-authentication, and do nothing else besides",
    (name) => {
      const components = ["components/placement", "components/metrics-authentication"];
      const rights = (some: readonly Manifest[]) => [...allowed(rulesOf(some, name))].sort();
      const calls = callsIn(sourceOf("src/platform/process/metrics/secured-metrics.ts"), []);
      expect([...calls].sort()).toEqual(["create subjectaccessreviews", "create tokenreviews"]);
      const asking = manifestsOf(kustomizeWith("base", {}, components));
      expect(rights(asking)).toEqual([...new Set([...rights(placementManifests), ...calls])].sort());
      // Where it asks for agents' tokens, too, no right is there twice.
      const rules = rulesOf(asking, name).filter(({ resources }) =>
        resources.some((resource) => calls.has(`create ${resource}`)),
      );
      expect(rules.flatMap(({ resources, verbs }) => [...resources, ...verbs]).sort()).toEqual([
        ...["create", "create", "subjectaccessreviews", "tokenreviews"],
      ]);
    },
  );

  it("let the operator do what its pod webhook calls besides with the component placement, and nothing else", () => {
    const calls = callsIn([...SOURCES.operator, ...POD_WEBHOOK].map(sourceOf).join("\n"), APPLIES_THAT_CREATE.operator);
    const rules = rulesOf(
      placementManifests.filter(({ metadata }) => !SIDECAR_ROLES.includes(metadata.name)),
      "operator",
    );
    expect([...allowed(rules)].sort()).toEqual([...calls, ...MARKS.operator].sort());
    expect(calls).toContain("watch mutatingwebhookconfigurations");
  });

  it("let the policy-engine do nothing else with the component policy-admission, but to Secrets of its own", () => {
    const [before, after] = [manifests, webhookManifests].map((some) => rulesOf(some, "policy-engine"));
    expect([...allowed(after ?? [])].sort()).toEqual([...allowed(before ?? [])].sort());
    const added = (after ?? []).filter((rule) => !JSON.stringify(before).includes(JSON.stringify(rule)));
    expect(added.map(({ resources, resourceNames }) => [resources, resourceNames])).toEqual([
      [["secrets"], Object.values(POLICY_WEBHOOK_SECRETS)],
    ]);
  });

  it.each([
    ["ca-publisher", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
    ["policy-ca-publisher", "validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
  ])("let the %s write %s, and do nothing else", (account, own, other) => {
    const calls = [...callsIn(sourceOf("src/ca-publisher"), [])].sort();
    expect(calls.filter((call) => !call.endsWith(other))).toEqual(
      [`list ${own}`, "list secrets", `patch ${own}`, `watch ${own}`, "watch secrets"].sort(),
    );
    const rules = [...allowed(rulesOf(webhookManifests, account))].sort();
    expect(rules).toEqual(calls.filter((call) => !call.endsWith(other)));
  });

  it("let the ca-publishers alone write webhooks' configurations", () => {
    const writing = webhookManifests.filter(({ rules = [] }) =>
      rules.some(
        ({ resources, verbs }) => /webhook/.test(resources.join()) && /patch|update|create|delete/.test(verbs.join()),
      ),
    );
    expect(writing.map(({ metadata }) => metadata.name).sort()).toEqual([
      "tidemark-ca-publisher",
      "tidemark-policy-ca-publisher",
    ]);
  });

  it("let who writes policies approve nothing, who approves write no policy, and no process write an approval", () => {
    const writers = (resource: string): string[] =>
      [...foundation, ...webhookManifests]
        .filter(({ rules = [] }) =>
          rules.some(
            ({ resources, verbs }) => resources.includes(resource) && /create|update|patch|delete/.test(verbs.join()),
          ),
        )
        .map(({ metadata }) => metadata.name);
    expect(writers("volumepolicies")).toEqual(["tidemark-edit"]);
    expect(writers("scalingapprovals")).toEqual(["tidemark-approver"]);
    const approver = foundation.find(({ metadata }) => metadata.name === "tidemark-approver");
    expect(Object.keys(approver?.metadata.labels ?? {}).filter((label) => /rbac/.test(label))).toEqual([]);
  });

  it("have no wildcard, and no verb that gives rights away", () => {
    const rules = [...foundation, ...webhookManifests].flatMap((object) => object.rules ?? []);
    expect(rules.length).toBeGreaterThan(20);
    for (const { apiGroups, resources, verbs } of rules) {
      for (const text of [...apiGroups, ...resources, ...verbs]) expect(text).not.toContain("*");
      const givesAway = ["escalate", "bind", "impersonate", "write-any-node", "own-anything"];
      for (const verb of givesAway) expect(verbs).not.toContain(verb);
    }
  });

  it("let nobody make Secrets, since one of them may be another account's token", () => {
    const ofSecrets = webhookManifests
      .flatMap((object) => object.rules ?? [])
      .filter(({ resources }) => resources.includes("secrets"));
    expect(ofSecrets.length).toBeGreaterThan(1);
    for (const { verbs } of ofSecrets)
      expect(verbs.filter((verb) => !["get", "list", "watch", "update"].includes(verb))).toEqual([]);
  });

  it("give Secrets, Leases and webhooks' configurations by name, but for the creation of Leases", () => {
    const named = webhookManifests
      .flatMap((object) => object.rules ?? [])
      .filter(({ resources }) => /secrets|leases|webhook/.test(resources.join()));
    expect(named.length).toBeGreaterThan(4);
    for (const { resourceNames = [], verbs } of named)
      expect(resourceNames.length > 0 || verbs.join() === "create").toBe(true);
  });

  it("let no process write another one's fields on nodes, pods or roles", () => {
    for (const name of Object.keys(SOURCES)) {
      const writes = [...allowed(rulesOf(webhookManifests, name))].filter((rule) => !/^(get|list|watch) /.test(rule));
      expect(
        writes.filter((rule) => / (nodes|pods|clusterroles|roles|.*bindings|serviceaccounts)\b/.test(rule)),
      ).toEqual([]);
    }
  });
});
