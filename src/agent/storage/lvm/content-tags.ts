// What a volume of LVM says of its own content, by its tags: they are written with LVM's metadata, and outlive every record of a node.
import { RECORDS } from "../../../api/names.ts";

/**
 * On the volume itself, from before its only mkfs on: no node's record survives the loss of that node's disk, and a thick volume may show
 * old bytes that are no signature, so that nothing else would tell one that has lost its superblock from a new one.
 */
export const FORMATTED_TAG = "tidemark.dev/formatted";

/** From the moment in which it is made as a snapshot of another until its filesystem has this volume's own UUID. */
export const COPY_TAG = "tidemark.dev/copy";

/** Pods have the device itself: whatever it carries, or does not, it is never formatted. */
export const RAW_BLOCK_TAG = `${RECORDS.volumeMode}=Block`;

/** From before a shrink of an unmounted filesystem touches anything until it is ended: without this node's record of it, nobody mounts. */
export const UNMOUNTED_SHRINK_TAG = "tidemark.dev/unmounted-shrink";
