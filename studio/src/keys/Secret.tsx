/** A key's secret, which is shown once. */

import { CopyButton } from "../shell/CopyButton";
import { Dialog } from "../shell/Dialog";
import type { NewKey } from "./key";

interface SecretProps {
  made: NewKey;
  onClose: () => void;
}

export function Secret({ made, onClose }: SecretProps) {
  return (
    <Dialog title={`The key of ${made.name}`} onClose={onClose} isLasting>
      <p>It is shown only once. Anyone who has it acts as {made.name}: store it like a password.</p>
      <input
        className="secret"
        aria-label="Secret"
        readOnly
        value={made.secret}
        onFocus={(event) => event.target.select()}
      />
      <div className="buttons">
        <CopyButton text={() => made.secret} />
        <button type="button" onClick={(event) => event.currentTarget.closest("dialog")?.close()}>
          I have saved it
        </button>
      </div>
    </Dialog>
  );
}
