// What lvmd gets from outside by flags and environment; what it is to serve is in the file that --config names. The only file of
// this process that reads either.
import { isAbsolute } from "node:path";
import {
  durationFlag,
  PROCESS_FLAGS,
  type ProcessSettings,
  readFlags,
  readProcessSettings,
} from "../platform/process/flags.ts";

export interface LvmdConfig extends ProcessSettings {
  /** TopoLVM's lvmd.yaml. */
  readonly settingsFile: string;
  /** The directory with the ends of reductions. */
  readonly stateDirectory: string;
  /** Where LVM writes a group's metadata after each change: what lvmd hears of others' changes. */
  readonly backupDirectory: string;
  /** An LVM command that takes longer is left behind. */
  readonly commandLimitMs: number;
}

const FLAGS = {
  ...PROCESS_FLAGS,
  "http-port": { type: "string", default: "9468" },
  config: { type: "string", default: "/etc/tidemark/lvmd.yaml" },
  "state-directory": { type: "string", default: "/var/lib/tidemark/lvmd" },
  "lvm-backup-directory": { type: "string", default: "/etc/lvm/backup" },
  "command-time-limit": { type: "string", default: "1m" },
} as const;

const PATH_FLAGS = ["config", "state-directory", "lvm-backup-directory"] as const;
const LEAST_COMMAND_LIMIT_MS = 1000;

/** Throws with a sentence for the user on anything it cannot read. */
export function readConfig(args: readonly string[], environment: NodeJS.ProcessEnv = process.env): LvmdConfig {
  const values = readFlags(FLAGS, args);
  for (const flag of PATH_FLAGS)
    if (!isAbsolute(values[flag])) throw new Error(`--${flag} ${values[flag]} is not an absolute path`);
  return {
    ...readProcessSettings(values, environment),
    settingsFile: values.config,
    stateDirectory: values["state-directory"],
    backupDirectory: values["lvm-backup-directory"],
    commandLimitMs: durationFlag("command-time-limit", values["command-time-limit"], LEAST_COMMAND_LIMIT_MS),
  };
}
