/** A button that opens a dialog, for further input or a confirmation. */

import { type FormEvent, type ReactNode, useState } from "react";
import { Dialog } from "../shell/Dialog";
import { Trouble } from "./Trouble";
import { type Act, useAct } from "./useAct";

interface DialogProps {
  /** The label of the submit button. */
  verb: string;
  title: string;
  /** The list that changes. */
  list: string;
  className?: string | undefined;
  send: (said: FormData) => Promise<unknown>;
  children?: ReactNode;
  onClose: () => void;
}

export function Asking(props: Omit<DialogProps, "onClose">) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" className={props.className} onClick={() => setOpen(true)}>
        {props.verb}
      </button>
      {isOpen && <AskingDialog {...props} onClose={() => setOpen(false)} />}
    </>
  );
}

/** The dialog; separate where it has to outlive the button. */
export function AskingDialog({ verb, title, list, className, send, children, onClose }: DialogProps) {
  const act = useAct(list);
  return (
    <Dialog title={title} onClose={onClose}>
      <Form verb={verb} className={className} act={act} send={send} onDone={onClose}>
        {children}
      </Form>
    </Dialog>
  );
}

interface FormProps extends Pick<DialogProps, "verb" | "className" | "send" | "children"> {
  act: Act;
  onDone: () => void;
}

function Form({ verb, className, act, send, onDone, children }: FormProps) {
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const said = new FormData(event.currentTarget);
    act.run(() => send(said), onDone);
  };
  return (
    <form className="asking" onSubmit={submit}>
      {children}
      <Trouble error={act.error} />
      <div className="buttons">
        <button type="submit" className={className ?? "primary"} disabled={act.isBusy}>
          {verb}
        </button>
        <button type="button" onClick={(event) => event.currentTarget.closest("dialog")?.close()}>
          Cancel
        </button>
      </div>
    </form>
  );
}
