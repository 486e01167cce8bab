// How kubelet learns of a CSI driver on its node, and where it finds the node: a socket in the directory that it watches
// (pluginregistration.v1), and the topology that the Node has at that moment. Kubelet asks who the driver is, and says what came of it.
// This only answers: kubelet itself asks again after a refusal, and after its own restart; so a socket that a killed agent left is as good
// as a new one, and only an orderly end removes it.

import { join } from "node:path";
import type { handleUnaryCall } from "@grpc/grpc-js";
import type { Driver } from "../../contracts/csi/driver.ts";
import { Refusal } from "../../contracts/csi/refusal.ts";
import {
  type RegistrationServer,
  RegistrationService,
} from "../../contracts/gen/pluginregistration/v1/registration.ts";
import { NODES, type Node } from "../../contracts/kubernetes/resources.ts";
import { TOPOLOGY_NODE, TOPOLOGY_PLACES } from "../../contracts/names.ts";
import type { KubeClient } from "../../platform/kube/client/client.ts";
import { isKubeError } from "../../platform/kube/kube-error.ts";
import type { Clock } from "../../platform/process/clock.ts";
import { serveOnSocket } from "../../platform/process/grpc.ts";
import type { Logger } from "../../platform/process/log.ts";

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

/**
 * Where this node is, as kubelet registers it with a driver. A span may be used on other nodes, too: csi-provisioner compares region and
 * zone with the class' allowedTopologies. They are what the Node says at that moment: kubelet refuses a driver that says anything else. The
 * segments of a driver's topology. Throws KubeError, and a Refusal, after which kubelet asks again.
 */
export type NodePlace = (driver: Driver) => Promise<Readonly<Record<string, string>>>;

/** Of a node that has just come: its cloud provider has not labelled it yet. */
const UNINITIALIZED_TAINT = "node.cloudprovider.kubernetes.io/uninitialized";
/** A cloud provider labels a node within a minute; without one the taint may stay, and the driver is needed all the same. */
const LABELS_WAIT_LIMIT_MS = 300_000;

export function createNodePlace(
  client: Pick<KubeClient, "get">,
  nodeName: string,
  clock: Pick<Clock, "monotonicMs">,
): NodePlace {
  const startedMs = clock.monotonicMs();
  return async ({ attaches }) => {
    const own = { [TOPOLOGY_NODE]: nodeName };
    if (!attaches) return own;
    const node = await readNode(client, nodeName);
    const labels = node?.metadata.labels ?? {};
    const places = TOPOLOGY_PLACES.flatMap((key) => (labels[key] ? [[key, labels[key]] as const] : []));
    if (places.length === 0 && isUnlabelledYet(node) && clock.monotonicMs() - startedMs < LABELS_WAIT_LIMIT_MS)
      throw new Refusal(
        "UNAVAILABLE",
        `node ${nodeName} has the taint ${UNINITIALIZED_TAINT}: its zone is not known yet`,
      );
    return { ...own, ...Object.fromEntries(places) };
  };
}

/** Undefined: it is not there, or the agent's role is of an earlier version and does not let it read nodes. */
async function readNode(client: Pick<KubeClient, "get">, name: string): Promise<Node | undefined> {
  try {
    return await client.get(NODES, { name });
  } catch (error) {
    if (isKubeError(error, "Forbidden")) return undefined;
    throw error;
  }
}

function isUnlabelledYet(node: Node | undefined): boolean {
  return node?.spec?.taints?.some(({ key }) => key === UNINITIALIZED_TAINT) === true;
}
