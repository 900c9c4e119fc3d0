/** Tones instead of colours: a view says what a text means, the screen chooses how that looks. */

export type Tone = "good" | "bad" | "busy" | "wait" | "dim" | "strong";

/** Dresses a text in a tone; its width on the screen stays the same. */
export type Style = (tone: Tone, text: string) => string;

/** No dress at all. */
export const plainStyle: Style = (_tone, text) => text;
