// What GetCapacity is asked: of which class and filesystem types, and where. Pure.
import type { Labels } from "../../api/label-selector.ts";
import type { Driver } from "../../csi/driver.ts";
import { Refusal } from "../../csi/refusal.ts";
import type { GetCapacityRequest } from "../../gen/csi/v1/csi.ts";
import { fsTypesOf } from "./volume-capabilities.ts";
import { parseClassParameters } from "./volume-parameters.ts";

/** `segments`: none are everywhere. */
export function capacityQuestion(
  { volumeCapabilities, parameters, accessibleTopology }: GetCapacityRequest,
  driver: Driver,
) {
  const ofClass = parseClassParameters(parameters, driver);
  if (ofClass instanceof Refusal) return ofClass;
  const fsTypes = volumeCapabilities.length === 0 ? [] : fsTypesOf(volumeCapabilities);
  if (fsTypes instanceof Refusal) return fsTypes;
  const segments: Labels = accessibleTopology?.segments ?? {};
  return { ofClass, fsTypes, segments };
}
