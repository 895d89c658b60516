/** Names a worker: in a request the one that is wanted (`--router-mode direct`), in a response the one that was chosen. */
export const WORKER_HEADER = "x-tokenplane-worker";
