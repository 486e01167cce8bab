// Where the CSI drivers of this node listen: asked of the registration sockets that they show to kubelet, as kubelet asks them.
// An answer is kept until its socket is gone; drivers come and go at any time.
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { credentials, Metadata } from "@grpc/grpc-js";
import { type PluginInfo, RegistrationClient } from "../../gen/pluginregistration/v1/registration.ts";
import { SOCKET_OPTIONS } from "./socket-options.ts";

export interface RegisteredDrivers {
  /** The path of the driver's CSI socket; undefined when no such driver is registered on this node. */
  socketOf(driver: string): Promise<string | undefined>;
}

const ANSWER_LIMIT_MS = 2000;
const PLUGIN_TYPE = "CSIPlugin";

interface Known {
  readonly registration: string;
  readonly inode: number;
  readonly endpoint: string;
}

export function createRegisteredDrivers(registrationDirectory: string): RegisteredDrivers {
  const known = new Map<string, Known>();
  return {
    socketOf: async (driver) => {
      const before = known.get(driver);
      if (before !== undefined && inodeOf(before.registration) === before.inode) return before.endpoint;
      // Two may look at the same time: what one has found the other one must not forget.
      const found = new Map<string, Known>();
      for (const registration of registrationSockets(registrationDirectory)) {
        const inode = inodeOf(registration);
        const plugin = await askPlugin(registration);
        if (plugin?.type !== PLUGIN_TYPE || inode === undefined) continue;
        found.set(plugin.name, { registration, inode, endpoint: plugin.endpoint.replace(/^unix:\/\//, "") });
      }
      known.clear();
      for (const [name, one] of found) known.set(name, one);
      return found.get(driver)?.endpoint;
    },
  };
}

/** Kubelet, too, leaves out what begins with a dot. */
function registrationSockets(directory: string): string[] {
  try {
    return readdirSync(directory, { withFileTypes: true, recursive: true })
      .filter((entry) => entry.isSocket() && !entry.name.startsWith("."))
      .map((entry) => join(entry.parentPath, entry.name));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

function inodeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.ino;
}

/** Undefined when nobody answers: a socket that a killed driver left. */
function askPlugin(socketPath: string): Promise<PluginInfo | undefined> {
  const client = new RegistrationClient(`unix://${socketPath}`, credentials.createInsecure(), SOCKET_OPTIONS);
  return new Promise<PluginInfo | undefined>((resolve) => {
    const options = { deadline: Date.now() + ANSWER_LIMIT_MS };
    client.getInfo({}, new Metadata(), options, (error, info) => resolve(error === null ? info : undefined));
  }).finally(() => client.close());
}
