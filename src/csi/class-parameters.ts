// How a StorageClass of ours says where its members come from: the names of the parameters that more than one process reads.

export const BACKEND_PARAMETER = "backend";
export const INITIAL_SIZE_PARAMETER = "initialSize";
/** Of the backend lvm. */
export const DEVICE_CLASS_PARAMETER = "deviceClass";
/** Of the backend span. */
export const MEMBER_CLASS_PARAMETER = "memberStorageClassName";
