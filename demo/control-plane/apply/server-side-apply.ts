// Server-side apply: a configuration states the fields that its manager wants to own. They are merged into the object. Fields that only
// this manager stated before are removed; fields of others are a conflict unless forced.
import { ApiError, type StatusCause } from "../http/api-error.ts";
import type { Schema } from "../schema/schema.ts";
import type { JsonObject } from "../store/json.ts";
import { mergeFields, removeFields } from "./field-merge.ts";
import {
  differenceOfSets,
  EMPTY_SET,
  type FieldSet,
  formatFieldPath,
  intersectionOfSets,
  isEmptySet,
  memberPaths,
  unionSets,
} from "./field-set.ts";
import { compareFields, statedFields } from "./field-structure.ts";
import {
  type Ownership,
  type Ownerships,
  ownable,
  settled,
  type Writer,
  withoutManagedFields,
  writerKey,
} from "./managed-fields.ts";

export interface Applied {
  readonly object: JsonObject;
  readonly ownerships: Ownerships;
}

/**
 * Applies a configuration to the live object (without managedFields in either).
 * Throws 409 naming every other manager and field, FieldStructureError when the schema cannot divide the configuration.
 */
export function applyConfiguration(
  schema: Schema,
  live: JsonObject,
  ownerships: Ownerships,
  configuration: JsonObject,
  writer: Writer,
  force: boolean,
  time: string,
): Applied {
  const own = writerKey(writer);
  const before = withoutManagedFields(live);
  const stated = ownable(statedFields(schema, configuration));
  const statedBefore = ownerships.get(own)?.set ?? EMPTY_SET;
  const others = [...ownerships].filter(([key]) => key !== own);

  const merged = mergeFields(schema, before, configuration) as JsonObject;
  const owned = others.reduce((all, [, other]) => unionSets(all, other.set), stated);
  const object = (removeFields(schema, merged, abandoned(statedBefore, owned)) ?? {}) as JsonObject;

  const { added, modified, removed } = compareFields(schema, before, object);
  const changed = ownable(unionSets(added, modified));
  const conflicts = others
    .map(([, other]) => ({ ...other, set: intersectionOfSets(other.set, changed) }))
    .filter((other) => !isEmptySet(other.set));
  if (conflicts.length > 0 && !force) throw applyConflict(conflicts);

  const next = new Map<string, Ownership>(
    others.map(([key, other]) => [key, { ...other, set: differenceOfSets(other.set, unionSets(changed, removed)) }]),
  );
  next.set(own, { writer, set: stated, time });
  return { object, ownerships: settled(ownerships, next, time) };
}

// What a manager stated before and neither it nor anyone else states now. A container stays while something in it is owned.
function abandoned(statedBefore: FieldSet, owned: FieldSet): FieldSet {
  const children = new Map<string, FieldSet>();
  for (const [element, child] of statedBefore.children) {
    const rest = abandoned(child, owned.children.get(element) ?? EMPTY_SET);
    if (!isEmptySet(rest)) children.set(element, rest);
  }
  return { member: statedBefore.member && isEmptySet(owned), children };
}

function applyConflict(conflicts: readonly Ownership[]): ApiError {
  const causes = conflicts.flatMap((owner) =>
    [...memberPaths(owner.set)].map(
      (path): StatusCause => ({
        reason: "FieldManagerConflict",
        message: `conflict with ${describeOwner(owner)}`,
        field: formatFieldPath(path),
      }),
    ),
  );
  const count = `Apply failed with ${causes.length} conflict${causes.length === 1 ? "" : "s"}`;
  return new ApiError(409, "Conflict", `${count}: ${describeConflicts(causes)}`, { causes });
}

function describeConflicts(causes: readonly StatusCause[]): string {
  if (causes.length === 1) return `${causes[0]?.message}: ${causes[0]?.field}`;
  const byOwner = new Map<string, string[]>();
  for (const { message, field } of causes) byOwner.set(message, [...(byOwner.get(message) ?? []), `- ${field}`]);
  return [...byOwner]
    .map(([message, paths]) => `${message.replace("conflict with", "conflicts with")}:\n${paths.join("\n")}`)
    .join("\n");
}

function describeOwner({ writer, time }: Ownership): string {
  const name = JSON.stringify(writer.manager);
  const subresource = writer.subresource === "" ? "" : ` with subresource ${JSON.stringify(writer.subresource)}`;
  if (writer.operation === "Apply") return `${name}${subresource}`;
  return `${name}${subresource} using ${writer.apiVersion}${time === undefined ? "" : ` at ${time}`}`;
}
