/** Copies a text, and confirms it. */

import { useEffect, useState } from "react";

const SHOWN_MILLISECONDS = 2_000;

interface CopyProps {
  text: () => string;
  label?: string;
}

export function CopyButton({ text, label = "Copy" }: CopyProps) {
  const [said, setSaid] = useState("");
  useEffect(() => {
    if (said === "") return;
    const timer = window.setTimeout(() => setSaid(""), SHOWN_MILLISECONDS);
    return () => window.clearTimeout(timer);
  }, [said]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text());
      setSaid("Copied");
    } catch {
      setSaid("Browsers allow copying on https and on localhost only");
    }
  };
  return (
    <button type="button" className="copy" onClick={() => void copy()}>
      <span aria-live="polite">{said || label}</span>
    </button>
  );
}
