/** A dialog that is open while it is mounted. */

import { type ReactNode, useEffect, useId, useRef } from "react";

interface DialogProps {
  title: string;
  onClose: () => void;
  /** Whether Esc leaves it open. */
  isLasting?: boolean;
  children: ReactNode;
}

export function Dialog({ title, onClose, isLasting = false, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      closedby={isLasting ? "none" : "closerequest"}
      onClose={onClose}
    >
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}
