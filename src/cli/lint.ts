// `tidemark lint FILE…`: whether the policies in files would work, and what of them is hardly meant, without a cluster: by the schema, by the
// compiler, and by what the policy webhook warns of. What a cluster alone can say is not asked: whether selectors select anything there.
import { readFileSync } from "node:fs";
import { isDeepStrictEqual, parseArgs } from "node:util";
import { parseAllDocuments } from "yaml";
import type * as z from "zod";
import {
  type ClusterVolumePolicySpec,
  clusterVolumePolicySpec,
  volumePolicySpec,
} from "../contracts/kinds/volume-policy.ts";
import { API_VERSION, GROUP } from "../contracts/names.ts";
import { printable } from "../contracts/printable.ts";
import { checkPolicy } from "../policy-engine/admission/check-policy.ts";
import type { AnyPolicy } from "../policy-engine/index.ts";

const USAGE = `Usage: tidemark lint FILE…    whether the policies in these files would work; - reads from standard input

  Exit status 1: one of them would be refused, or a file cannot be read. Warnings leave it at 0.
`;

/** What is said of one file, and how many policies in it would be refused or warned of. */
interface Lint {
  readonly lines: readonly string[];
  readonly refused: number;
  readonly policies: number;
}

const SPECS: ReadonlyMap<unknown, z.ZodType> = new Map<unknown, z.ZodType>([
  ["VolumePolicy", volumePolicySpec],
  ["ClusterVolumePolicy", clusterVolumePolicySpec],
]);

/** RFC 1123, as Kubernetes has it. */
const OBJECT_NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

export async function runLint(args: readonly string[]): Promise<void> {
  const options = { help: { type: "boolean", short: "h", default: false } } as const;
  const { values, positionals } = parseArgs({ args: [...args], allowPositionals: true, options });
  if (values.help) {
    process.stdout.write(USAGE);
    return;
  }
  if (positionals.length === 0) throw new Error("name a file with policies, or - for standard input");
  const lints = positionals.map((file) => lintText(file, readFileSync(file === "-" ? 0 : file, "utf8")));
  const text = lints.flatMap(({ lines }) => lines).join("\n");
  process.stdout.write(`${printable(text)}\n`);
  if (lints.some(({ refused }) => refused > 0)) process.exitCode = 1;
}

/** Pure. Other objects are passed over; a file without any policy is a problem. */
export function lintText(file: string, text: string): Lint {
  const documents = parseAllDocuments(text, { prettyErrors: true });
  const said = documents.flatMap((document): { readonly name: string; readonly verdict: Verdict }[] => {
    const [error] = document.errors;
    if (error !== undefined) return [{ name: "YAML", verdict: { refusal: error.message.trim(), warnings: [] } }];
    const policies = objectsIn(document.toJS() as unknown).filter(isPolicy);
    return policies.map((policy) => ({ name: nameOf(policy), verdict: lintObject(policy) }));
  });
  if (said.length === 0)
    return { lines: [`${file}: has neither a VolumePolicy nor a ClusterVolumePolicy`], refused: 1, policies: 0 };
  const lines = said.flatMap(({ name, verdict: { refusal, warnings } }) => [
    ...(refusal === undefined ? [] : [`${file}: ${refusal}`]),
    ...warnings.map((warning) => `${file}: ${name}: warning: ${warning}`),
    ...(refusal === undefined && warnings.length === 0 ? [`${file}: ${name}: compiles`] : []),
  ]);
  return { lines, refused: said.filter(({ verdict }) => verdict.refusal !== undefined).length, policies: said.length };
}

type Verdict = Pick<ReturnType<typeof checkPolicy>, "refusal" | "warnings">;

/** The object itself, or the items of a List. */
function objectsIn(object: unknown): readonly unknown[] {
  const { kind, items } = (object ?? {}) as { kind?: unknown; items?: unknown };
  return kind === "List" && Array.isArray(items) ? items : [object];
}

function isPolicy(object: unknown): object is AnyPolicy {
  const { apiVersion, kind } = (object ?? {}) as { apiVersion?: unknown; kind?: unknown };
  return typeof apiVersion === "string" && apiVersion.startsWith(`${GROUP}/`) && SPECS.has(kind);
}

function nameOf({ kind, metadata }: AnyPolicy): string {
  return `${kind} ${[metadata?.namespace, metadata?.name].filter(Boolean).join("/")}`;
}

function lintObject(policy: AnyPolicy): Verdict {
  const name = nameOf(policy);
  const refused = (problems: readonly string[]): Verdict => ({
    refusal: [`${name} would be refused:`, ...problems].join("\n"),
    warnings: [],
  });
  if (policy.apiVersion !== API_VERSION) return refused([`apiVersion: write ${API_VERSION}`]);
  if (!policy.metadata?.name) return refused(["metadata.name: give it a name"]);
  if (!OBJECT_NAME.test(policy.metadata.name))
    return refused(["metadata.name: use small letters, digits, - and . alone, with a letter or digit at both ends"]);
  const read = SPECS.get(policy.kind)?.safeParse(policy.spec);
  if (read?.success !== true)
    return refused((read?.error.issues ?? []).map(({ path, message }) => `${fieldOf(["spec", ...path])}: ${message}`));
  const unknown = unknownFields(policy.spec, read.data, ["spec"]);
  if (unknown.length > 0) return refused(unknown.map((field) => `${field}: there is no such field`));
  const problems = ceilingProblems(policy.spec);
  if (problems.length > 0) return refused(problems);
  return checkPolicy({ ...policy, spec: read.data } as AnyPolicy);
}

/** What the CRD's own rules refuse, and neither the schema nor the compiler knows. */
function ceilingProblems({ ceilings }: ClusterVolumePolicySpec): string[] {
  const { perNode = 0, perCluster = Number.POSITIVE_INFINITY } = ceilings?.concurrentOperations ?? {};
  const drivers = (ceilings?.driverModifications ?? []).map(({ driver }) => driver);
  const twice = drivers.filter((driver, index) => drivers.indexOf(driver) !== index);
  return [
    ...(perNode > perCluster ? ["spec.ceilings.concurrentOperations: perNode is larger than perCluster"] : []),
    ...twice.map((driver) => `spec.ceilings.driverModifications: ${driver} is there twice`),
  ];
}

/** What the schema has left out of what was written. */
function unknownFields(written: unknown, read: unknown, path: readonly PropertyKey[]): string[] {
  if (typeof written !== "object" || written === null || isDeepStrictEqual(written, read)) return [];
  if (typeof read !== "object" || read === null) return [fieldOf(path)];
  return Object.entries(written).flatMap(([key, value]) => {
    const at = [...path, Array.isArray(written) ? Number(key) : key];
    return key in read ? unknownFields(value, (read as Readonly<Record<string, unknown>>)[key], at) : [fieldOf(at)];
  });
}

/** "spec.rules[0].when". */
function fieldOf(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === "number") return `${text}[${part}]`;
    return text === "" ? String(part) : `${text}.${String(part)}`;
  }, "");
}
