/** Labels: what a worker of a fleet has, and what a pipeline may require of it. */

/** The form of a label; it is a part of the name of a queue. */
export const LABEL = /^[a-z0-9][a-z0-9_-]{0,31}$/;

/** The form in words. */
export const LABEL_FORM = "small letters, digits, - and _, at most 32";
