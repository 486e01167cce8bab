// What upstream's csi-provisioner, csi-attacher and csi-resizer call for a driver with attachments, topology and secrets, and
// without snapshots.
import { NAMESPACE } from "./manifests.ts";

const NAME = "member-driver-sidecars";
const READ = ["get", "list", "watch"];

export function sidecarRoleManifests(): object[] {
  const rule = (apiGroup: string, resources: string[], verbs: string[]) => ({
    apiGroups: [apiGroup],
    resources,
    verbs,
  });
  return [
    {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRole",
      metadata: { name: NAME },
      rules: [
        rule("", ["persistentvolumes"], [...READ, "create", "patch", "delete"]),
        rule("", ["persistentvolumeclaims"], [...READ, "update"]),
        rule("", ["persistentvolumeclaims/status"], ["patch"]),
        rule("", ["nodes", "secrets"], READ),
        rule("", ["events"], ["create", "patch"]),
        rule("storage.k8s.io", ["storageclasses", "csinodes", "volumeattributesclasses"], READ),
        rule("storage.k8s.io", ["volumeattachments"], [...READ, "patch"]),
        rule("storage.k8s.io", ["volumeattachments/status"], ["patch"]),
      ],
    },
    {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRoleBinding",
      metadata: { name: NAME },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: NAME },
      subjects: [{ kind: "ServiceAccount", name: NAMESPACE, namespace: NAMESPACE }],
    },
  ];
}
