/** A key's secret, which is shown once. */

import { useRef, useState } from "react";
import { Modal } from "../lists/Modal";
import type { NewKey } from "./key";

interface SecretProps {
  made: NewKey;
  onClose: () => void;
}

export function Secret({ made, onClose }: SecretProps) {
  const shown = useRef<HTMLInputElement>(null);
  const [said, setSaid] = useState("");
  const copy = async () => {
    shown.current?.select();
    try {
      await navigator.clipboard.writeText(made.secret);
      setSaid("Copied");
    } catch {
      setSaid("It is selected: copy it with Ctrl+C");
    }
  };
  return (
    <Modal title={`The key of ${made.name}`} onClose={onClose} isLasting>
      <p>It is shown this once. Whoever has it is {made.name}: keep it where secrets are kept.</p>
      <input
        ref={shown}
        className="secret"
        aria-label="Secret"
        readOnly
        value={made.secret}
        onFocus={(event) => event.target.select()}
      />
      <div className="buttons">
        <button type="button" className="primary" onClick={() => void copy()}>
          Copy
        </button>
        <button type="button" onClick={(event) => event.currentTarget.closest("dialog")?.close()}>
          I have kept it
        </button>
        <span role="status" className="soft">
          {said}
        </span>
      </div>
    </Modal>
  );
}
