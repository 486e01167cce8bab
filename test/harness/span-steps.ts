// The steps that a change of a span's members takes, without operator and node: what one writes and the other carries out.
import type { FilesystemLayout, LastOperation, MemberSpec } from "../../src/contracts/kinds/filesystem-layout.ts";
import { parseQuantity } from "../../src/contracts/quantities/quantity.ts";
import { decideMemberState } from "../../src/operator/decide/members/decide-member-state.ts";
import type { MembersPlan } from "../../src/operator/decide/members/decide-members.ts";
import { buildSpan } from "../builders/span.ts";
import { memberStates } from "./member-states.ts";

const CARRIED = "2030-01-01T00:00:00.000Z";

/** Mounted, of these members. */
export function mounted(...sizes: string[]): FilesystemLayout {
  const layout = buildSpan({ sizes });
  const { nodeName } = layout.spec;
  return { ...layout, status: { ...layout.status, nodeName } };
}

/** Its members hold so much, in their order, as their node says. */
export function holding(layout: FilesystemLayout, ...allocated: string[]): FilesystemLayout {
  const members = layout.status?.members?.map((one, index) => ({ ...one, allocated: allocated[index] ?? "0" })) ?? [];
  return { ...layout, status: { ...layout.status, members } };
}

export function unmounted(layout: FilesystemLayout): FilesystemLayout {
  return { ...layout, status: { ...layout.status, mounted: false } };
}

/** As the operator writes it. */
export function written(layout: FilesystemLayout, plan: MembersPlan): FilesystemLayout {
  if (plan.do === "hold") throw new Error(plan.message);
  const target = plan.target ?? layout.spec.target;
  return { ...layout, spec: { ...layout.spec, members: plan.members, ...(target === undefined ? {} : { target }) } };
}

/**
 * As the node carries it out, and the operator then takes it: spares become ready, members come and go. `devices`: by names, the sizes that their
 * driver has made, where those are not what was asked for.
 */
export function carriedOut(
  layout: FilesystemLayout,
  outcome: LastOperation["outcome"] = "Succeeded",
  devices: Readonly<Record<string, string>> = {},
): FilesystemLayout {
  const { members = [], target } = layout.spec;
  const fits = outcome === "Succeeded";
  const isInside = ({ name }: MemberSpec): boolean =>
    layout.status?.members?.some((one) => one.name === name && one.state === "Present") === true;
  const reported = members.map((member) => {
    const { name, size = "0", state = "Present" } = member;
    const deviceSize = devices[name] ?? size;
    return {
      name,
      size: deviceSize,
      state: fits || state === "Spare" ? state : isInside(member) ? ("Present" as const) : state,
    };
  });
  const lastOperation: LastOperation | undefined = target && {
    kind: parseQuantity(target.size) > parseQuantity(target.from) ? "Extend" : "Shrink",
    from: target.from,
    to: target.size,
    epoch: 3,
    decidedAt: target.decidedAt,
    startedAt: CARRIED,
    outcome,
    reached: fits ? target.size : target.from,
    endedAt: CARRIED,
  };
  const told = { ...layout, status: { ...layout.status, members: reported, lastOperation } };
  const settled = members.map((member) => ({ ...member, state: decideMemberState(told, member) }));
  const left = settled.filter(
    ({ name, state }) => state !== "Removed" || isInside({ name } as MemberSpec) === false || !fits,
  );
  const gone = new Set(reported.filter(({ state }) => state === "Removed").map(({ name }) => name));
  return {
    ...told,
    spec: { ...told.spec, members: left.filter(({ name }) => !gone.has(name)) },
    status: { ...told.status, members: reported.filter(({ name }) => !gone.has(name)) },
  };
}

/** Its last operation was this otherwise. */
export function withLast(layout: FilesystemLayout, change: Partial<LastOperation>): FilesystemLayout {
  const lastOperation = { ...layout.status?.lastOperation, ...change } as LastOperation;
  return { ...layout, status: { ...layout.status, lastOperation } };
}

export const summary = ({ spec }: FilesystemLayout): string => memberStates(spec.members).join(", ");
