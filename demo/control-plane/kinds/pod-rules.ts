// What kube-apiserver asks of a pod, as far as it could surprise who was tried on the embedded control plane alone: containers that could be
// started, and a specification that stays as it is. A pod is put on a node by its binding, which is not served here.
import type { FieldError } from "../schema/field-errors.ts";
import { forbiddenField, required } from "../schema/field-errors.ts";
import { asJsonObject, equalJson, type JsonObject } from "../store/json.ts";

const MAY_CHANGE = [
  "activeDeadlineSeconds",
  "tolerations",
  "terminationGracePeriodSeconds",
  "schedulingGates",
] as const;
const IMMUTABLE =
  "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`," +
  "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
  "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

export function podErrors(object: JsonObject, before: JsonObject | undefined): FieldError[] {
  const spec = asJsonObject(object["spec"]);
  if (before === undefined) return containerErrors(listOf(spec["containers"]));
  const isAsBefore = equalJson(fixedPart(spec), fixedPart(asJsonObject(before["spec"])));
  return isAsBefore ? [] : [forbiddenField("spec", IMMUTABLE)];
}

function containerErrors(containers: readonly JsonObject[]): FieldError[] {
  if (containers.length === 0) return [required("spec.containers")];
  return containers.flatMap((container, index) =>
    ["name", "image"]
      .filter((field) => !container[field])
      .map((field) => required(`spec.containers[${index}].${field}`)),
  );
}

function fixedPart(spec: JsonObject): JsonObject {
  const withoutImages = (list: unknown): JsonObject[] => listOf(list).map(({ image: _image, ...rest }) => rest);
  const { containers, initContainers, ...others } = spec;
  for (const field of MAY_CHANGE) delete others[field];
  return { ...others, containers: withoutImages(containers), initContainers: withoutImages(initContainers) };
}

function listOf(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.map(asJsonObject) : [];
}
