// Addresses in the cluster's own network namespace. Nothing outside can reach them or collide with them, so they are constants,
// the same for every cluster.

export const CONTROL_PLANE_ADDRESS = "10.99.0.1";
export const NETWORK_PREFIX_BITS = 24;
export const API_SERVER_PORT = 6443;
export const API_SERVER_URL = `https://${CONTROL_PLANE_ADDRESS}:${API_SERVER_PORT}`;

export const SERVICE_ADDRESSES = "10.96.0.0/16";
/** The first of them is the Service "kubernetes". */
export const KUBERNETES_SERVICE_ADDRESS = "10.96.0.1";

export const POD_ADDRESSES = "10.244.0.0/16";

const FIRST_NODE = 11;
/** As many as have an address beside the control plane's; the machine ends earlier. */
export const NODES_LIMIT = 100;

/** `index` counts nodes from 0. */
export function nodeAddress(index: number): string {
  return `10.99.0.${FIRST_NODE + index}`;
}

/** The node's part of POD_ADDRESSES. */
export function nodePodAddresses(index: number): string {
  return `10.244.${index + 1}.0/24`;
}
