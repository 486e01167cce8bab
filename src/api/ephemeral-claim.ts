// The claims that Kubernetes makes for a pod, of the templates among its volumes. Pure.

/** Its name, which is the pod's own and the volume's in its spec. */
export function ephemeralClaimName(podName: string, volumeName: string): string {
  return `${podName}-${volumeName}`;
}
