// The member driver as a process of its own: in the cluster, its controller part beside upstream's sidecars and its node part
// on each node.
import { createLogger } from "../../src/platform/process/log.ts";
import { stopAll, untilSignal } from "../../src/platform/process/shutdown.ts";
import { readMemberDriverConfig } from "./config.ts";
import { startMemberDriver } from "./member-driver.ts";

const log = createLogger("member-driver", "info");
const driver = await startMemberDriver(readMemberDriverConfig(process.argv.slice(2)), log);
await untilSignal();
await stopAll([{ name: "member driver", stop: () => driver.close() }], log);
