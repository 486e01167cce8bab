// How the members of a span volume are made, as its StorageClass said when the volume was made: kept with the volume, since
// classes are deleted and made anew. Pure.
import { RECORDS } from "../../api/names.ts";
import { type CarriedKeys, carriedOfRecords, recordsOfCarried } from "./carried-keys.ts";

/** Auto: a member grows in place where its class allows that, and else one is added. */
export const STRATEGIES = ["Auto", "GrowMember", "AddMember"] as const;
export type Strategy = (typeof STRATEGIES)[number];

export interface MemberRules {
  /** StorageClass of the member claims. */
  readonly className: string;
  /** Spare ones among them. */
  readonly maxMembers: number;
  readonly spareMembers: number;
  readonly strategy: Strategy;
  /** What members have of their volume's own claim; absent: nothing. */
  readonly carried?: CarriedKeys;
}

export const MEMBERS_LIMIT = 4;
/** As many as a layout has room for: the larger one that takes others' places comes before they leave. */
export const MERGING_MEMBERS_LIMIT = MEMBERS_LIMIT + 1;

export function recordsOfRules(rules: MemberRules | undefined): Record<string, string> {
  if (rules === undefined) return {};
  return {
    [RECORDS.memberClass]: rules.className,
    [RECORDS.maxMembers]: String(rules.maxMembers),
    [RECORDS.spareMembers]: String(rules.spareMembers),
    [RECORDS.strategy]: rules.strategy,
    ...recordsOfCarried(rules.carried),
  };
}

/** The inverse; undefined where the class is not recorded. What else cannot be read is as a class without it has it. */
export function rulesOfRecords(records: Readonly<Record<string, string>> | undefined): MemberRules | undefined {
  const className = records?.[RECORDS.memberClass];
  if (!className) return undefined;
  const carried = carriedOfRecords(records);
  return {
    className,
    maxMembers: countOf(records[RECORDS.maxMembers], 1, MEMBERS_LIMIT) ?? MEMBERS_LIMIT,
    spareMembers: countOf(records[RECORDS.spareMembers], 0, 1) ?? 0,
    strategy: STRATEGIES.find((strategy) => strategy === records[RECORDS.strategy]) ?? "Auto",
    ...(carried && { carried }),
  };
}

/** A whole number within bounds, both included. */
export function countOf(text: string | undefined, least: number, most: number): number | undefined {
  if (text === undefined || !/^\d{1,3}$/.test(text)) return undefined;
  const count = Number(text);
  return count >= least && count <= most ? count : undefined;
}
