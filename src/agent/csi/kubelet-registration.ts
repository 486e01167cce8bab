// How kubelet learns of a CSI driver on its node: a socket in the directory that it watches (pluginregistration.v1). Kubelet
// asks there who the driver is, and says what came of it. This only answers: kubelet itself asks again after a refusal, and
// after its own restart; so a socket that a killed agent left is as good as a new one, and only an orderly end removes it.

import { join } from "node:path";
import type { handleUnaryCall } from "@grpc/grpc-js";
import { type RegistrationServer, RegistrationService } from "../../gen/pluginregistration/v1/registration.ts";
import { serveOnSocket } from "../../process/grpc.ts";
import type { Logger } from "../../process/log.ts";

export interface KubeletRegistration {
  readonly driverName: string;
  /** Why kubelet does not use the driver; undefined when it does. */
  notRegistered(): string | undefined;
  /** Kubelet then forgets the driver; pods keep their mounts. */
  close(): Promise<void>;
}

export interface KubeletRegistrationOptions {
  /** The one that kubelet watches: plugins_registry. */
  readonly directory: string;
  readonly driverName: string;
  /** Of the driver's CSI services, which must be served already: kubelet calls them before it registers the driver. */
  readonly csiSocket: string;
  readonly log: Logger;
}

const PLUGIN_TYPE = "CSIPlugin";
/** Kubelet compares the major number only. */
const CSI_VERSIONS = ["1.0.0"];
const NOT_ASKED = "kubelet has not asked for it yet";

/** Takes the socket over from an agent that was killed or is about to end. */
export async function serveKubeletRegistration({
  directory,
  driverName,
  csiSocket,
  log,
}: KubeletRegistrationOptions): Promise<KubeletRegistration> {
  const socketPath = join(directory, `${driverName}-reg.sock`);
  let problem: string | undefined = NOT_ASKED;
  const note = (error: string | undefined): void => {
    if (error === problem) return; // kubelet says the same at each try
    problem = error;
    if (error === undefined) log.info({ driver: driverName, csiSocket }, "kubelet has registered the CSI driver");
    else log.error({ driver: driverName, socketPath, csiSocket, error }, "kubelet refused the CSI driver");
  };
  const implementation: RegistrationServer = {
    getInfo: answer(() => ({
      type: PLUGIN_TYPE,
      name: driverName,
      endpoint: csiSocket,
      supportedVersions: CSI_VERSIONS,
    })),
    notifyRegistrationStatus: answer(({ pluginRegistered, error }) => {
      note(pluginRegistered ? undefined : `kubelet refused it: ${error === "" ? "it did not say why" : error}`);
      return {};
    }),
  };
  const server = await serveOnSocket(socketPath, [{ definition: RegistrationService, implementation }]);
  return {
    driverName,
    notRegistered: () =>
      problem === undefined
        ? undefined
        : `CSI driver ${driverName} is not registered at ${socketPath}: ${problem}; see kubelet's log if it stays so`,
    close: () => server.close(),
  };
}

function answer<Request, Response>(response: (request: Request) => Response): handleUnaryCall<Request, Response> {
  return (call, callback) => callback(null, response(call.request));
}
