/** The end of a dialog's form: an error, the submit button, and the cancel button. */

interface EndProps {
  action: string;
  error: Error | null;
  isPending: boolean;
  onClose: () => void;
  no?: string;
}

export function DialogEnd({ action, error, isPending, onClose, no = "Close" }: EndProps) {
  return (
    <>
      {error !== null && (
        <p className="trouble" role="alert">
          {error.message}
        </p>
      )}
      <div className="buttons">
        <button type="submit" className="primary" disabled={isPending}>
          {action}
        </button>
        <button type="button" onClick={onClose}>
          {no}
        </button>
      </div>
    </>
  );
}
