/** A button that asks before it does something, for what is needed or whether it is meant. */

import { type FormEvent, type ReactNode, useState } from "react";
import { Dialog } from "../shell/Dialog";
import { Trouble } from "./Trouble";
import { type Act, useAct } from "./useAct";

interface AskingProps {
  /** What the button says, and the one that sends. */
  verb: string;
  title: string;
  /** The list that changes. */
  list: string;
  className?: string | undefined;
  send: (said: FormData) => Promise<unknown>;
  children?: ReactNode;
}

export function Asking({ verb, title, list, className, send, children }: AskingProps) {
  const [isOpen, setOpen] = useState(false);
  const act = useAct(list);
  const close = () => {
    setOpen(false);
    act.reset();
  };
  return (
    <>
      <button type="button" className={className} onClick={() => setOpen(true)}>
        {verb}
      </button>
      {isOpen && (
        <Dialog title={title} onClose={close}>
          <Form verb={verb} className={className} act={act} send={send} onDone={close}>
            {children}
          </Form>
        </Dialog>
      )}
    </>
  );
}

interface FormProps extends Pick<AskingProps, "verb" | "className" | "send" | "children"> {
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
