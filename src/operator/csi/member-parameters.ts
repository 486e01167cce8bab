// The parameters of a StorageClass of span.tidemark.dev that say how members are made. Pure.
import { MEMBER_CLASS_PARAMETER as CLASS_NAME } from "../../csi/class-parameters.ts";
import { invalidArgument, Refusal } from "../../csi/refusal.ts";
import { carriedKeys, parseCarriedKeys } from "../member/carried-keys.ts";
import { countOf, MEMBERS_LIMIT, type MemberRules, STRATEGIES } from "../member/member-rules.ts";

const MAX_MEMBERS = "maxMembers";
const SPARE_MEMBERS = "spareMembers";
const STRATEGY = "strategy";
const LABELS = "memberLabels";
const ANNOTATIONS = "memberAnnotations";
export const MEMBER_PARAMETERS: readonly string[] = [
  CLASS_NAME,
  MAX_MEMBERS,
  SPARE_MEMBERS,
  STRATEGY,
  LABELS,
  ANNOTATIONS,
];

/** It becomes part of a path on the API server: nothing that climbs out of it. */
export const OBJECT_NAME = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

/** A refusal is always INVALID_ARGUMENT and names the parameter. */
export function parseMemberParameters(parameters: Readonly<Record<string, string>>): MemberRules | Refusal {
  const className = parameters[CLASS_NAME];
  if (!className)
    return invalidArgument(
      `the StorageClass has no parameter ${CLASS_NAME}: the class, of any CSI driver, that members are made of`,
    );
  if (!OBJECT_NAME.test(className)) return invalidArgument(`parameter ${CLASS_NAME}: "${className}" is no name`);
  const maxMembers = countOf(parameters[MAX_MEMBERS] ?? String(MEMBERS_LIMIT), 1, MEMBERS_LIMIT);
  if (maxMembers === undefined)
    return invalidArgument(
      `parameter ${MAX_MEMBERS} is "${parameters[MAX_MEMBERS]}"; it is a number from 1 to ${MEMBERS_LIMIT}, the spare included`,
    );
  const spareMembers = countOf(parameters[SPARE_MEMBERS] ?? "0", 0, 1);
  if (spareMembers === undefined)
    return invalidArgument(`parameter ${SPARE_MEMBERS} is "${parameters[SPARE_MEMBERS]}"; it is 0 or 1`);
  if (spareMembers >= maxMembers)
    return invalidArgument(`${SPARE_MEMBERS} ${spareMembers} leaves no member of ${MAX_MEMBERS} ${maxMembers} to use`);
  const asked = parameters[STRATEGY] ?? "Auto";
  const strategy = STRATEGIES.find((one) => one === asked);
  if (strategy === undefined)
    return invalidArgument(`parameter ${STRATEGY} is "${asked}"; there are: ${STRATEGIES.join(", ")}`);
  const labels = keysOf(parameters, LABELS);
  if (labels instanceof Refusal) return labels;
  const annotations = keysOf(parameters, ANNOTATIONS);
  if (annotations instanceof Refusal) return annotations;
  const carried = carriedKeys(labels, annotations);
  return { className, maxMembers, spareMembers, strategy, ...(carried && { carried }) };
}

function keysOf(parameters: Readonly<Record<string, string>>, parameter: string): string[] | Refusal {
  const keys = parseCarriedKeys(parameters[parameter] ?? "");
  return typeof keys === "string" ? invalidArgument(`parameter ${parameter}: ${keys}`) : keys;
}
