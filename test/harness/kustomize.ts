// What `kubectl kustomize` makes of our manifests, as objects. Where there is no kubectl, the suite says so, and fails in CI.
import { execFileSync } from "node:child_process";
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { parseAllDocuments, stringify } from "yaml";
import type { KubeObject } from "../../src/contracts/kubernetes/object.ts";

export interface Container {
  readonly name: string;
  readonly image: string;
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string }[];
  readonly securityContext?: Readonly<Record<string, unknown>>;
  readonly startupProbe?: Probe;
  readonly livenessProbe?: Probe;
  readonly readinessProbe?: Probe;
  readonly [field: string]: unknown;
}

interface Probe {
  readonly httpGet: object;
}

export interface PodSpec {
  readonly serviceAccountName: string;
  readonly securityContext?: Readonly<Record<string, unknown>>;
  readonly containers: readonly Container[];
  readonly volumes?: readonly { readonly name: string; readonly [source: string]: unknown }[];
  readonly [field: string]: unknown;
}

export interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** The fields that tests look at. */
export interface Manifest extends KubeObject {
  readonly kind: string;
  readonly rules?: readonly Rule[];
  readonly roleRef?: { readonly kind: string; readonly name: string };
  readonly subjects?: readonly { readonly kind: string; readonly name: string; readonly namespace: string }[];
  readonly spec?: {
    readonly template?: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> };
      readonly spec: PodSpec;
    };
    readonly [field: string]: unknown;
  };
}

const ROOT = fileURLToPath(new URL("../../kustomize/", import.meta.url));

export function hasKubectl(): boolean {
  try {
    execFileSync("kubectl", ["version", "--client"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** `directory` is relative to kustomize/. */
export function kustomize(directory: string): string {
  return execFileSync("kubectl", ["kustomize", join(ROOT, directory)], { encoding: "utf8", maxBuffer: 1 << 26 });
}

/** The same, as somebody's own overlay over it, with these fields, and these components of kustomize/. */
export function kustomizeWith(directory: string, fields: object, componentDirectories: readonly string[] = []): string {
  const overlay = realpathSync(mkdtempSync(join(tmpdir(), "tidemark-overlay-")));
  try {
    const toOurs = (path: string): string => relative(overlay, join(realpathSync(ROOT), path));
    const ours = { resources: [toOurs(directory)], components: componentDirectories.map(toOurs) };
    writeFileSync(join(overlay, "kustomization.yaml"), stringify({ ...ours, ...fields }));
    // What it warns of and why it fails is in the error alone.
    const options = { encoding: "utf8", maxBuffer: 1 << 26, stdio: "pipe" } as const;
    return execFileSync("kubectl", ["kustomize", overlay], options);
  } finally {
    rmSync(overlay, { recursive: true, force: true });
  }
}

export function manifestsOf(text: string): Manifest[] {
  return parseAllDocuments(text).map((document) => document.toJS() as Manifest);
}

/** The pod template of a process' Deployment or DaemonSet. Throws when there is none. */
export function podSpecOf(manifests: readonly Manifest[], name: string): PodSpec {
  const found = manifests.find((object) => object.spec?.template !== undefined && object.metadata.name === name);
  if (found?.spec?.template === undefined) throw new Error(`no Deployment or DaemonSet ${name} in the manifests`);
  return found.spec.template.spec;
}

/** Everything that the roles bound to a service account allow. */
export function rulesOf(manifests: readonly Manifest[], serviceAccount: string): Rule[] {
  const bound = manifests.filter(({ subjects }) => subjects?.some(({ name }) => name === serviceAccount));
  return bound.flatMap(({ roleRef }) =>
    manifests
      .filter(({ kind, metadata }) => kind === roleRef?.kind && metadata.name === roleRef.name)
      .flatMap(({ rules = [] }) => rules),
  );
}
