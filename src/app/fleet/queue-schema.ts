/** The schema of the queues, and of what this room keeps beside them. */
export const QUEUE_SCHEMA = "perdure_queue";
