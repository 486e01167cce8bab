// What GetCapacity is asked: of which class and filesystem types, and where. Pure.
import type { Labels } from "../../api/label-selector.ts";
import { refusalOfMode } from "../../csi/access.ts";
import type { Driver } from "../../csi/driver.ts";
import { Refusal } from "../../csi/refusal.ts";
import type { GetCapacityRequest } from "../../gen/csi/v1/csi.ts";
import { type AskedUse, askedUse } from "./volume-capabilities.ts";
import { parseClassParameters } from "./volume-parameters.ts";

const ANY_USE: AskedUse = { volumeMode: "Filesystem", fsTypes: [] };

/** `segments`: none are everywhere. */
export function capacityQuestion(
  { volumeCapabilities, parameters, accessibleTopology }: GetCapacityRequest,
  driver: Driver,
) {
  const ofClass = parseClassParameters(parameters, driver);
  if (ofClass instanceof Refusal) return ofClass;
  const asked = volumeCapabilities.length === 0 ? ANY_USE : askedUse(volumeCapabilities);
  if (asked instanceof Refusal) return asked;
  const refusal = refusalOfMode(asked.volumeMode, ofClass.backend ?? "loop");
  if (refusal !== undefined) return refusal;
  const segments: Labels = accessibleTopology?.segments ?? {};
  return { ofClass, fsTypes: asked.fsTypes, segments };
}
