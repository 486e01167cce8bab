// The flags of the member driver's process, and the names that a cluster's tests know it by. No other file of it reads flags or
// the environment.
import { parseArgs } from "node:util";
import type { MemberDriverOptions } from "./member-driver.ts";

/** A suite that is given another driver and class uses those, and installs nothing. */
export const MEMBER_DRIVER = process.env["MEMBER_DRIVER"] ?? "member.test.tidemark.dev";
export const MEMBER_CLASS = process.env["MEMBER_CLASS"] ?? "member";

/** Throws with a sentence on anything it cannot read. */
export function readMemberDriverConfig(args: readonly string[]): MemberDriverOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      "driver-name": { type: "string", default: MEMBER_DRIVER },
      directory: { type: "string" },
      socket: { type: "string" },
      node: { type: "string" },
      controller: { type: "boolean", default: false },
      "registration-directory": { type: "string" },
    },
  });
  const { directory, socket } = values;
  if (directory === undefined || socket === undefined) throw new Error("--directory and --socket are required");
  return {
    driverName: values["driver-name"],
    directory,
    socket,
    node: values.node,
    controller: values.controller,
    registrationDirectory: values["registration-directory"],
  };
}
