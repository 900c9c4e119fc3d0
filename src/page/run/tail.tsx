/** The end of an output, scrolled to its last line. */
import { type ReactNode, useLayoutEffect, useRef } from "react";

export function Tail({ text, label }: { text: string; label: string }): ReactNode {
  const box = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    if (box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls needs the keyboard
    <section className="tail" aria-label={label} tabIndex={0} ref={box}>
      <pre>{text}</pre>
    </section>
  );
}
